"""Which stores are to be read, and how far: what is known before any of their events is."""

import glob
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from regroup.pipeline.source.arrow_rows import StoreReader
from regroup.storage.errors import NotAStore, StoreError, StoreIsDamaged
from regroup.storage.sqlite.files import SHARED_MEMORY_BYTES, beside, inspect, size_of

OnError: TypeAlias = Literal["fail", "skip"]
ON_ERROR: Final = ("fail", "skip")


class StoreSeen(NamedTuple):
    """A store as it was when somebody looked: its events with trimmed_through < position <= last are all there."""

    path: str
    trimmed_through: int
    last: int
    host: str
    """The machine that looked."""


class Skipped(NamedTuple):
    """A file that is left out, and why, with its name."""

    path: str
    why: str


class AnotherMachine(StoreError):
    """A store was to be read on a machine where it must not be, or cannot be."""


def files_of(patterns: str) -> list[Path]:
    """The files that comma-separated names and patterns mean (`runs/*.db`), each once, by name. Raises NotAStore."""
    found: dict[str, None] = {}
    for pattern in filter(None, (each.strip() for each in patterns.split(","))):
        matching = sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else [pattern]
        if not matching:
            raise NotAStore(f"No file matches {pattern}: look at the pattern, or at the folder you are in.")
        found |= dict.fromkeys(os.path.realpath(each) for each in matching)
    if not found:
        raise NotAStore("No store is named: give a file, or a pattern such as 'runs/*.db'.")
    return [Path(each) for each in found if not each.endswith(("-wal", "-shm", ".lock"))]


def look_at(path: Path, *, whole: bool = False) -> StoreSeen:
    """How far a store goes; `whole` has every page and every event read. Raises a StoreError."""
    if inspect(path) == 0:
        raise NotAStore(f"There is no store in {path}: name another file.")
    with StoreReader(path) as reader:
        if whole:
            reader.check_pages()
        trimmed, last = reader.bounds()
        if whole:
            check_complete(path, trimmed, last, sum(batch.num_rows for batch in reader.events(trimmed, last)))
    return StoreSeen(str(path), trimmed, last, socket.gethostname())


def look_at_all(paths: Iterable[Path], on_error: OnError) -> Iterator[StoreSeen | Skipped]:
    """Every store, in order. Where bad ones are to be skipped, each is checked first, so that none is half read."""
    for path in paths:
        try:
            yield look_at(path, whole=on_error == "skip")
        except StoreError as error:
            if on_error == "fail":
                raise
            yield Skipped(str(path), str(error))


def seen_among(looked_at: Iterable[StoreSeen | Skipped]) -> list[StoreSeen]:
    """The stores that can be read; the others are named on standard error."""
    seen = []
    for each in looked_at:
        if isinstance(each, Skipped):
            print(f"regroup: skipped: {each.why}", file=sys.stderr)
        else:
            seen.append(each)
    return seen


def check_complete(path: str | Path, after: int, through: int, events: int) -> None:
    """Every position has its event. Raises StoreIsDamaged."""
    if events != through - after:
        raise StoreIsDamaged(
            f"{path} is damaged: of the positions {after + 1} to {through} only {events} are there. "
            "Restore it from a copy."
        )


def check_place(path: Path, host: str) -> None:
    """Refuse to read here what only another machine can read soundly. Raises AnotherMachine.

    SQLite keeps what was last committed in a log beside the file, and its locks in memory that one machine shares.
    """
    here = socket.gethostname()
    if here == host:
        return
    if not path.exists():
        raise AnotherMachine(
            f"{path} was found on {host}, and there is none on {here}: put closed stores where every worker sees "
            f"them, or run `regroup pipeline ingest` on {host} and read its Parquet."
        )
    if is_live(path):
        raise AnotherMachine(
            f"{path} is being written, or was not closed, and a live SQLite file belongs to one machine: {here} must "
            f"not read it. Run `regroup pipeline ingest` on {host} and read its Parquet, or copy the store once its "
            "writer has closed it."
        )


def is_live(path: Path) -> bool:
    """Somebody has it open for writing, or was killed while he had."""
    return size_of(beside(path, "-wal")) > 0 or size_of(beside(path, "-shm")) >= SHARED_MEMORY_BYTES
