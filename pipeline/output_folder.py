"""The folder that the pipeline writes: its format version, its lock, and files that are written atomically.

DIR/format                          version of everything below: FORMAT_VERSION
DIR/bronze, snapshots, ingested     events of stores (pipeline/bronze/ingest.py)
DIR/events, runs, campaign.json     events and results of a campaign (pipeline/campaign/runner.py)
DIR/tables                          tables of either (pipeline/gold/build.py)
DIR/tables.stamp                    hash of the events that the tables were built from
DIR/report, report.html             the report of the tables (pipeline/report/page.py)
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from regroup.storage.errors import StoreError, StoreFailed
from regroup.storage.sqlite.writer_lock import LockFile

FORMAT_VERSION: Final = 2
"""Version of the columns and values below a folder. Version 1 had other names for them and no `DIR/format`."""

EVENT_FOLDERS: Final = ("bronze", "snapshots", "events")
"""Folders whose events become tables."""
EMPTY_FOLDER_FILES: Final = {"format", "writer.lock"}
"""All that a folder has before the first data are written."""
DATA_FOLDERS: Final = (*EVENT_FOLDERS, "ingested", "runs", "tables")


class UnsupportedFolderVersion(StoreError):
    """The folder was written by a release with another format."""


def make_folder(folder: Path) -> None:
    """Make the folder unless it exists. Raises StoreFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreFailed(f"{error.filename} cannot be a folder, since a file is in the way: name another.") from error
    except OSError as error:
        raise StoreFailed(f"The folder {folder} cannot be made: {error.strerror}. Name another.") from error


def check_format(folder: Path) -> None:
    """Raise UnsupportedFolderVersion if the folder holds data of another format. An empty folder has none."""
    try:
        version = (folder / "format").read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        version = "1" if any((folder / each).exists() for each in DATA_FOLDERS) else str(FORMAT_VERSION)
    if version != str(FORMAT_VERSION):
        raise UnsupportedFolderVersion(
            f"{folder} has format {version}, and this release of regroup reads and writes format {FORMAT_VERSION}: "
            "name another folder, and ingest the stores or simulate the campaign again."
        )


def prepare_folder(folder: Path) -> None:
    """Make the folder and note its format. Raises StoreFailed, UnsupportedFolderVersion."""
    make_folder(folder)
    check_format(folder)
    write_atomically(folder / "format", f"{FORMAT_VERSION}\n".encode())


@contextmanager
def removed_if_it_stays_empty(folder: Path) -> Iterator[None]:
    """After an error, remove a folder that was made inside the block and got no data."""
    existed = folder.exists()
    try:
        yield
    except BaseException:
        if not existed and folder.is_dir() and {each.name for each in folder.iterdir()} <= EMPTY_FOLDER_FILES:
            for each in folder.iterdir():
                each.unlink()
            folder.rmdir()
        raise


@contextmanager
def exclusive_writer(folder: Path, *kinds: str) -> Iterator[None]:
    """Prepare the folder and lock it against other writers. Raises StoreLocked, and what `prepare_folder` raises.

    Files that a killed writer left unfinished in the sub-folders `kinds` are removed.
    """
    prepare_folder(folder)
    lock = LockFile(folder / "writer")
    try:
        for kind in kinds:
            for unfinished in (folder / kind).rglob(".*.parquet.*"):
                unfinished.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


@contextmanager
def atomic_parquet_writer(target: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A writer of a file that gets its name once it is complete; until then its name is hidden from Spark."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with renamed_to(target) as unfinished, pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        yield writer


def write_atomically(target: Path, content: bytes) -> None:
    """Replace a small file; a concurrent reader sees the old content or the new."""
    with renamed_to(target) as unfinished:
        unfinished.write_bytes(content)


@contextmanager
def renamed_to(target: Path) -> Iterator[Path]:
    """A temporary path beside `target` that is renamed to it afterwards, or removed after an error."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def events_fingerprint(folder: Path) -> str:
    """A hash of the names and sizes of all files with events, which stays the same if the folder is copied."""
    files = sorted(file for kind in EVENT_FOLDERS for file in (folder / kind).rglob("[!.]*.parquet"))
    file_lines = [f"{file.relative_to(folder).as_posix()} {file.stat().st_size}" for file in files]
    return hashlib.sha256("\n".join(file_lines).encode()).hexdigest()


def write_stamp(folder: Path, fingerprint: str) -> None:
    """Note the fingerprint of the events that the tables were built from; empty while they are not complete."""
    write_atomically(folder / "tables.stamp", fingerprint.encode())


def tables_are_current(folder: Path) -> bool:
    """Whether the tables were built from all events that have been ingested or simulated by now.

    If not, a report would count the gaps of the runs that are in the tables, and divide them by the number of all runs.
    """
    try:
        return (folder / "tables.stamp").read_text(encoding="utf-8") == events_fingerprint(folder)
    except FileNotFoundError:
        return False
