"""Versions of the tables: each build makes one, and readers take the one that `DIR/tables/current.json` names.

    DIR/tables/version-000001-5f0c/gaps/part-00000.parquet
    DIR/tables/current.json

The file is replaced last, in one step, so a reader has all tables of one build, and a build that was killed changes
nothing. A query that reads an older version goes on, since versions are removed by `remove_old_versions` only.
"""

from typing import Final
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.locations.location import Location, LocationLike, location_of
from regroup.pipeline.output_folder import check_format, events_fingerprint
from regroup.storage.errors import StoreError

__all__ = ["TablesMissing", "TablesVersion", "current_version", "read_table"]

VERSION_PREFIX: Final = "version-"


class TablesMissing(StoreError):
    """Raised if no tables were built in a folder, or if the requested table is not among them."""


class TablesVersion(msgspec.Struct, frozen=True):
    """One version of the tables, which one build has made."""

    name: str
    """The name of the version's folder below `DIR/tables`."""
    events: str
    """`events_fingerprint` of the events from which the version was built."""
    tables: tuple[str, ...]

    @property
    def number(self) -> int:
        return version_number(self.name)


def read_table(spark: SparkSession, folder: LocationLike, name: str, version: TablesVersion | None = None) -> DataFrame:
    """A table of the current version, or of the given one. Raises TablesMissing, UnsupportedFolderVersion.

    Read the current version once and pass it for several tables that have to be of one build.
    """
    place = location_of(folder, spark)
    check_format(place)
    chosen = version or current_version(place)
    if chosen is None:
        raise TablesMissing(f"no tables in {folder}: regroup pipeline tables {folder}")
    if name not in chosen.tables:
        raise TablesMissing(f"unknown table {name!r}; tables in {folder}: {', '.join(sorted(chosen.tables))}")
    return spark.read.parquet((tables_folder(place) / chosen.name / name).for_spark)


def current_version(folder: LocationLike) -> TablesVersion | None:
    """The version that readers take; None if no tables have been built."""
    try:
        content = (tables_folder(folder) / "current.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return msgspec.json.decode(content, type=TablesVersion)
    except msgspec.MsgspecError as error:
        raise TablesMissing(
            f"{tables_folder(folder) / 'current.json'} is damaged ({error}): regroup pipeline tables {folder}"
        ) from error


def new_version(folder: LocationLike) -> Location:
    """A folder for the next version. Its name has a random part, so that no other build takes the same."""
    numbers = [version_number(each.name) for each in tables_folder(folder).folders()]
    return tables_folder(folder) / f"{VERSION_PREFIX}{max(numbers, default=0) + 1:06}-{uuid4().hex[:4]}"


def make_current(folder: LocationLike, version: TablesVersion) -> None:
    """Write this version to `current.json`, so that readers use it from now on."""
    (tables_folder(folder) / "current.json").replace(msgspec.json.encode(version))


def remove_old_versions(folder: LocationLike) -> list[str]:
    """Remove the versions that are older than the current one, and return their names.

    A newer version is kept, since a build may still be writing it. Tables of releases that had no versions are removed,
    too.
    """
    current = current_version(folder)
    if current is None:
        return []
    old = [each for each in tables_folder(folder).folders() if version_number(each.name) < current.number]
    for each in old:
        each.remove_folder()
    return [each.name for each in old]


def tables_are_current(folder: LocationLike) -> bool:
    """Whether the tables were built from all events that have been ingested or simulated by now, and are all there.

    An older release may have built fewer tables.

    If not, a report would count the gaps of the runs that are in the tables, and divide them by the number of all runs.
    """
    current = current_version(folder)
    if current is None or not set(TABLES) <= set(current.tables):
        return False
    return current.events == events_fingerprint(folder)


def version_number(name: str) -> int:
    """The number in the name of a version's folder; 0 if the name is not that of a version."""
    digits = name.removeprefix(VERSION_PREFIX).partition("-")[0]
    return int(digits) if name.startswith(VERSION_PREFIX) and digits.isdigit() else 0


def tables_folder(folder: LocationLike) -> Location:
    return location_of(folder) / "tables"
