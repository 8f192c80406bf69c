"""Ingests stores that are not on disks: one task copies each store to its own disk, and from there to bronze."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from pyspark.sql import SparkSession

from regroup.pipeline.bronze.blocks import write_block
from regroup.pipeline.bronze.exchange_files import plan_exchanges, write_exchanges
from regroup.pipeline.bronze.store_progress import (
    StoreManifest,
    copied_position,
    exchanges_folder,
    manifest_of,
    plan_copy,
)
from regroup.pipeline.locations.file_systems import scheme_of
from regroup.pipeline.locations.location import Location, location_of
from regroup.pipeline.source.stores import OnError, SkippedStore, inspect_store, split_patterns
from regroup.pipeline.spark.progress import JobProgress, run_with_progress
from regroup.storage.errors import NotAStore, StoreError


class StoreCopy(NamedTuple):
    """The result of the task that has ingested a store from an object store: its new events, and its new manifest."""

    new_events: int
    manifest: StoreManifest | None
    """The store's new manifest; None if the store has not changed since its last ingest."""


def find_remote_stores(spark: SparkSession, patterns: str) -> list[Location]:
    """The stores among the patterns that are not on disks, without repetitions and in order.

    Raises NotAStore, StoreFailed.
    """
    found: dict[Location, None] = {}
    for pattern in split_patterns(patterns):
        if scheme_of(pattern) == "file":
            continue
        matching = location_of(pattern, spark).matching()
        if not matching:
            raise NotAStore(f"No file matches {pattern}: check the pattern and the bucket.")
        found |= dict.fromkeys(matching)
    return [each for each in found if not each.name.endswith(("-wal", "-shm", ".lock"))]


def copy_remote_stores(
    spark: SparkSession, stores: Sequence[Location], folder: Location, on_error: OnError, progress: JobProgress | None
) -> list[StoreCopy | SkippedStore]:
    """Ingest these stores, each in one Spark task.

    Raises a StoreError for a bad store unless `on_error` is `skip`; then the result for this store is a SkippedStore.
    """
    if not stores:
        return []
    tasks = spark.sparkContext.parallelize(stores, len(stores))
    copy = partial(copy_remote_store, folder=folder, on_error=on_error)
    copied: list[StoreCopy | SkippedStore] = run_with_progress(
        spark, "ingesting", lambda: tasks.map(copy).collect(), progress
    )
    return copied


def copy_remote_store(store: Location, folder: Location, on_error: OnError) -> StoreCopy | SkippedStore:
    """Copy a store to this machine's disk, write its new events to bronze, and remove the copy."""
    try:
        log = Location(f"{store.address}-wal", store.settings)
        if log.size_bytes():
            raise NotAStore(
                f"{log} exists: the store was copied before its writer had closed it, and lacks its last events. "
                "Close the store, and copy it again."
            )
        with store.copied() as copy, errors_about(str(copy), store.address):
            extent = inspect_store(copy, read_all=on_error == "skip")._replace(address=store.address)
            through = copied_position(extent, folder)
            for block in plan_copy(extent, through, folder):
                write_block(block)
            for each in plan_exchanges(extent, exchanges_folder(folder, extent.address)):
                write_exchanges(each)
            return StoreCopy(extent.last_position - through, manifest_of(extent, folder))
    except StoreError as error:
        if on_error == "fail":
            raise
        return SkippedStore(store.address, str(error))


@contextmanager
def errors_about(copy: str, address: str) -> Iterator[None]:
    """Replace the path of a store's copy by the store's address in errors raised inside the `with` block."""
    try:
        yield
    except StoreError as error:
        error.args = tuple(each.replace(copy, address) if isinstance(each, str) else each for each in error.args)
        raise
