"""Files that are there whole, or not at all, whoever is killed meanwhile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from regroup.storage.errors import StoreFailed
from regroup.storage.sqlite.files import WriterLock


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


def write_whole(target: Path, content: bytes) -> None:
    """A small file; whoever reads it meanwhile sees what was there before."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def only_writer(folder: Path, *kinds: str) -> Iterator[None]:
    """Nobody else writes in the folder meanwhile. Raises StoreIsLocked, or StoreFailed where no folder can be.

    Below `kinds`, what was being written when somebody was killed is removed.
    """
    make_folder(folder)
    lock = WriterLock(folder / "writer")
    try:
        for kind in kinds:
            for each in (folder / kind).rglob(".*.parquet.*"):
                each.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


def make_folder(folder: Path) -> None:
    """Raises StoreFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreFailed(f"{error.filename} cannot be a folder, since a file is in the way: name another.") from error
    except OSError as error:
        raise StoreFailed(f"The folder {folder} cannot be made: {error.strerror}. Name another.") from error
