"""The folder that the pipeline writes: its format version, its locks, and files that are written atomically.

DIR/format                          version of everything below: FORMAT_VERSION
DIR/bronze, snapshots, ingested     events of stores (pipeline/bronze/ingest.py)
DIR/exchanges                       recorded exchanges of stores (pipeline/bronze/exchange_files.py)
DIR/events, runs, campaign.json     events and results of a campaign (pipeline/campaign/runner.py)
DIR/tables/version-000001           one version of the tables of either (pipeline/gold/build.py)
DIR/tables/current.json             the name of the current version (pipeline/gold/versions.py)
DIR/writer.lock, tables.lock        locked by who writes events, and by who writes or removes tables
DIR/report, report.html             the report of the tables (pipeline/report/page.py)
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from regroup.pipeline.locations.location import Location, LocationLike, location_of
from regroup.storage.errors import StoreDamaged, StoreError, StoreFailed
from regroup.storage.sqlite.writer_lock import LockFile

FORMAT_VERSION: Final = 2
"""Version of the columns and values below a folder. Version 1 had other names for them and no `DIR/format`."""

EVENT_FOLDERS: Final = ("bronze", "snapshots", "exchanges", "events")
"""Folders whose events and exchanges become tables."""
STORE_FOLDERS: Final = ("bronze", "snapshots", "exchanges", "ingested")
"""What a folder has if stores were ingested into it, as far as a campaign never writes it."""
CAMPAIGN_FILES: Final = ("campaign.json", "events", "runs")
"""What a folder has if a campaign was written to it, as far as an ingest never writes it."""
EMPTY_FOLDER_FILES: Final = {"format", "writer.lock"}
"""The names of everything in a folder before the first data are written."""
DATA_FOLDERS: Final = (*EVENT_FOLDERS, "ingested", "runs", "tables")


PATTERN_CHARACTERS: Final = frozenset("*?[]{}\\")
"""What Hadoop takes for a part of a pattern, in an address from which Spark reads."""


class NotAFolder(StoreError):
    """Raised for a folder whose address Spark would take for a pattern of several."""


class HoldsOtherEvents(StoreError):
    """Raised for stores that would be ingested into the folder of a campaign, and for a campaign in one of stores."""


class UnsupportedFolderVersion(StoreError):
    """Raised for a folder that was written by a release with another format."""


def make_folder(folder: LocationLike) -> None:
    """Make the folder if it does not exist.

    Object stores have no folders, so nothing is made there. Raises StoreFailed.
    """
    place = location_of(folder)
    if not place.is_local:
        return
    try:
        place.path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreFailed(f"{error.filename} cannot be a folder, since a file is in the way: name another.") from error
    except OSError as error:
        raise StoreFailed(f"The folder {folder} cannot be made: {error.strerror}. Name another.") from error


def check_format(folder: LocationLike) -> None:
    """Raise UnsupportedFolderVersion if the folder holds data of another format. An empty folder is accepted.

    Raises NotAFolder for an address that Spark would take for a pattern.
    """
    place = location_of(folder)
    if PATTERN_CHARACTERS & set(place.address):
        raise NotAFolder(
            f"{place} cannot be a folder of the pipeline: Spark takes * ? [ ] {{ }} and \\ in it for a pattern, "
            "and would read other folders. Name another."
        )
    try:
        version = (place / "format").read_bytes().decode(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        version = "1" if any((place / each).exists() for each in DATA_FOLDERS) else str(FORMAT_VERSION)
    if version != str(FORMAT_VERSION):
        raise UnsupportedFolderVersion(
            f"{folder} has format {version}, and this release of regroup reads and writes format {FORMAT_VERSION}: "
            "name another folder, and ingest the stores or simulate the campaign again."
        )


def check_for_stores(folder: LocationLike) -> None:
    """Raise HoldsOtherEvents if the folder holds a campaign, so that no store can be ingested into it.

    Raises what `check_format` raises.
    """
    check_format(folder)
    if any((location_of(folder) / each).exists() for each in CAMPAIGN_FILES):
        raise HoldsOtherEvents(f"{folder} holds a campaign: name another folder for the stores.")


def check_for_campaign(folder: LocationLike) -> None:
    """Raise HoldsOtherEvents if stores were ingested into the folder, so that no campaign can be written to it.

    Raises what `check_format` raises.
    """
    check_format(folder)
    if any((location_of(folder) / each).exists() for each in STORE_FOLDERS):
        raise HoldsOtherEvents(f"{folder} holds ingested stores: name another folder for the campaign.")


def prepare_folder(folder: LocationLike) -> None:
    """Make the folder and write its format version. Raises StoreFailed, UnsupportedFolderVersion."""
    make_folder(folder)
    check_format(folder)
    (location_of(folder) / "format").replace(f"{FORMAT_VERSION}\n".encode())


@contextmanager
def removed_if_it_stays_empty(folder: LocationLike) -> Iterator[None]:
    """Remove a folder that was made inside the block if the block fails and no data were written."""
    place = location_of(folder)
    existed = place.exists()
    try:
        yield
    except BaseException:
        if not existed and {each.name for each in (*place.files(), *place.folders())} <= EMPTY_FOLDER_FILES:
            with suppress(StoreFailed):
                place.remove_folder()
        raise


@contextmanager
def exclusive_writer(folder: LocationLike, *kinds: str) -> Iterator[None]:
    """Prepare the folder, and lock it against other writers within the `with` block.

    Files that a killed writer left unfinished in the sub-folders `kinds` are removed. In an object store nothing is
    locked or removed. Raises StoreLocked, and what `prepare_folder` raises.
    """
    prepare_folder(folder)
    place = location_of(folder)
    if not place.is_local:
        yield
        return
    lock = LockFile(place.path / "writer")
    try:
        for kind in kinds:
            for unfinished in (place.path / kind).rglob(".*.parquet.*"):
                unfinished.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


@contextmanager
def exclusive_tables_writer(folder: LocationLike) -> Iterator[None]:
    """Lock the tables of an existing folder against other builds and removals within the `with` block.

    Readers need no lock, and events can be written meanwhile. The lock ends with the process that has it. In an object
    store and in HDFS nothing is locked. Raises StoreLocked, StoreFailed, StoreReadOnly.
    """
    place = location_of(folder)
    if not place.is_local:
        yield
        return
    lock = LockFile(place.path / "tables", "Wait until it has ended, or stop it.")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def parquet_writer(target: Location, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Open a Parquet file for writing. The file has its name only after the `with` block has ended without error."""
    with target.written() as unfinished, pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        yield writer


def parquet_metadata(file: Location) -> pq.FileMetaData:
    """The metadata of a Parquet file of events or exchanges, with its number of rows. Raises OSError, StoreDamaged."""
    try:
        with file.opened() as opened:
            return pq.read_metadata(opened)
    except pa.ArrowInvalid as error:
        raise StoreDamaged(
            f"{file} is damaged, and is no Parquet file any more: regroup pipeline ingest STORES into a new folder."
        ) from error


def events_fingerprint(folder: LocationLike) -> str:
    """A hash of the names and sizes of all files with events in the folder, and of the manifests of ingested stores.

    A copy of the folder has the same.
    """
    place = location_of(folder)
    start = len(place.address) + 1
    found = [(place / kind).files("[!.]*.parquet", below=True) for kind in EVENT_FOLDERS]
    lines = sorted(f"{file.address[start:]} {size}" for files in found for file, size in files.items())
    manifests = (place / "ingested").files("*.json")
    lines += (f"{file.address[start:]} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in manifests)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
