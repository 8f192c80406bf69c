"""Finds the stores that a job reads, checks them, and determines up to which position each goes."""

import glob
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from regroup.pipeline.locations.file_systems import local_path, scheme_of
from regroup.pipeline.source.recorded_rows import recorded_rows
from regroup.pipeline.source.store_reader import StoreReader
from regroup.storage.errors import NotAStore, StoreDamaged, StoreError
from regroup.storage.sqlite.files import SHARED_MEMORY_BYTES, file_size_bytes, sibling_file, store_exists

OnError: TypeAlias = Literal["fail", "skip"]
ON_ERROR_CHOICES: Final = ("fail", "skip")


class StoreExtent(NamedTuple):
    """What was found when a store was inspected: it has all events with trimmed_through < position <= last_position."""

    path: str
    trimmed_through: int
    last_position: int
    host: str
    """The name of the machine that inspected the store."""
    address: str
    """The address of the store. If it is not on a disk, `path` is a temporary copy of it."""


class SkippedStore(NamedTuple):
    """A file that is skipped as a bad store, and the reason as a sentence that names the file."""

    path: str
    reason: str


class StoreOnOtherHost(StoreError):
    """Raised if a store is on another machine, or if a process on another machine may be writing to it."""


def find_stores(patterns: str) -> list[Path]:
    """The files that match a text of paths and patterns separated by commas, without repetitions, sorted.

    Raises NotAStore.
    """
    found: dict[str, None] = {}
    for pattern in split_patterns(patterns):
        if scheme_of(pattern) != "file":
            raise NotAStore(
                f"{pattern} is not on a disk, and SQLite reads files on disks only: `regroup pipeline ingest` copies "
                "such stores and writes their events as Parquet."
            )
        pattern = local_path(pattern)
        matching = sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else [pattern]
        if not matching:
            raise NotAStore(f"No file matches {pattern}: check the pattern and the current folder.")
        found |= dict.fromkeys(os.path.realpath(each) for each in matching)
    if not found:
        raise NotAStore("No store is named: give a file, or a pattern such as 'runs/*.db'.")
    return [Path(each) for each in found if not each.endswith(("-wal", "-shm", ".lock"))]


def split_patterns(patterns: str) -> list[str]:
    """Split a text at its commas to paths and patterns."""
    return [each.strip() for each in patterns.split(",") if each.strip()]


def inspect_store(path: Path, *, read_all: bool = False) -> StoreExtent:
    """Find out which positions a store has.

    With `read_all`, every page, every event and every recorded exchange is read before.

    Raises a StoreError.
    """
    if not store_exists(path):
        raise NotAStore(f"There is no store in {path}: name another file.")
    with StoreReader(path) as reader:
        if read_all:
            reader.check_pages()
        trimmed, last = reader.bounds()
        if read_all:
            check_complete(path, trimmed, last, sum(batch.num_rows for batch in reader.events(trimmed, last)))
            for _ in recorded_rows(reader, path, 0, reader.exchange_bounds()[1]):
                pass  # a damaged block raises an error
    return StoreExtent(str(path), trimmed, last, socket.gethostname(), str(path))


def inspect_stores(paths: Iterable[Path], on_error: OnError) -> Iterator[StoreExtent | SkippedStore]:
    """Inspect every store, in order. If `on_error` is `skip`, each store is read in full before.

    So a bad store is skipped as a whole, and not found to be bad after a part of it was used.
    """
    for path in paths:
        try:
            yield inspect_store(path, read_all=on_error == "skip")
        except StoreError as error:
            if on_error == "fail":
                raise
            yield SkippedStore(str(path), str(error))


def check_complete(path: str | Path, after: int, through: int, events: int) -> None:
    """Raise StoreDamaged unless `events`, the number of events read, equals `through` - `after`."""
    if events != through - after:
        raise StoreDamaged(
            f"{path} is damaged: of the positions {after + 1} to {through} only {events} are there. "
            "Restore it from a copy."
        )


def check_host(path: Path, host: str) -> None:
    """Raise StoreOnOtherHost unless this machine can read the store that `host` inspected.

    SQLite keeps the last commits in a log beside the file, and its locks in memory that one machine shares.
    """
    this_host = socket.gethostname()
    if this_host == host:
        return
    if not path.exists():
        raise StoreOnOtherHost(
            f"{path} was found on {host}, and there is none on {this_host}: put closed stores where every worker sees "
            f"them, or run `regroup pipeline ingest` on {host} and read its Parquet."
        )
    # A writer has the store open, or was killed.
    if (
        file_size_bytes(sibling_file(path, "-wal")) > 0
        or file_size_bytes(sibling_file(path, "-shm")) >= SHARED_MEMORY_BYTES
    ):
        raise StoreOnOtherHost(
            f"{path} is being written, or was not closed, and a live SQLite file belongs to one machine: {this_host} "
            f"must not read it. Run `regroup pipeline ingest` on {host} and read its Parquet, or copy the store once "
            "its writer has closed it."
        )
