"""Parquet files that are there whole, or not at all, whoever is killed meanwhile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from regroup.storage.files import WriterLock


@contextmanager
def whole_file(target: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A writer to another name, hidden from Spark, that gets the right one once everything is written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            yield writer
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def only_writer(folder: Path, *kinds: str) -> Iterator[None]:
    """Nobody else writes in the folder meanwhile. Raises StoreIsLocked.

    Below `kinds`, what was being written when somebody was killed is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(folder / "writer")
    try:
        for kind in kinds:
            for each in (folder / kind).rglob(".*.parquet.*"):
                each.unlink(missing_ok=True)
        yield
    finally:
        lock.release()
