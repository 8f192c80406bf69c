"""Whether tables were made of the events that are there now: a stamp beside them says of which files they were made.

A campaign that was extended, or an ingest that took in more, leaves the tables as they were; whoever counts its runs
then, and reads its gaps from the tables, would divide the old by the new.
"""

import hashlib
from pathlib import Path
from typing import Final

from regroup.pipeline.atomic_files import write_whole

OF_EVENTS: Final = ("bronze", "snapshots", "events")
"""The folders that tables are made of."""


def stamp_of(folder: Path) -> str:
    """A sum of the names and sizes of all files with events: it outlives a copy of the folder."""
    files = sorted(file for kind in OF_EVENTS for file in (folder / kind).rglob("[!.]*.parquet"))
    lines = [f"{file.relative_to(folder).as_posix()} {file.stat().st_size}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def put_stamp(folder: Path, stamp: str) -> None:
    """The tables are made, of what the stamp says."""
    write_whole(stamp_file(folder), stamp.encode())


def remove_stamp(folder: Path) -> None:
    """The tables are being made: until they are, they are of nothing."""
    stamp_file(folder).unlink(missing_ok=True)


def stamp_file(folder: Path) -> Path:
    return folder / "tables.stamp"


def is_fresh(folder: Path) -> bool:
    """Whether the tables are of all that has been taken in, or simulated, by now."""
    try:
        return stamp_file(folder).read_text(encoding="utf-8") == stamp_of(folder)
    except FileNotFoundError:
        return False
