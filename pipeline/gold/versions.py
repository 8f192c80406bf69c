"""Versions of the tables: each build makes one, and readers take the one that `DIR/tables/current.json` names.

    DIR/tables/version-000001-5f0c/gaps/part-00000.parquet
    DIR/tables/current.json

The file is replaced last, in one step, so a reader has all tables of one build, and a build that was killed changes
nothing. A query that reads an older version goes on, since versions are removed by `remove_old_versions` only.

Builds and removals exclude each other where files can be locked. Elsewhere two builds can run at once: then the one
that ends second becomes current only if its number is the higher one.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.gold.table_files import TABLE_SCHEMAS
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.locations.location import Location, LocationLike, location_of
from regroup.pipeline.output_folder import check_format, events_fingerprint, exclusive_tables_writer
from regroup.storage.errors import StoreError, StoreFailed

__all__ = ["TablesDamaged", "TablesMissing", "TablesVersion", "current_version", "read_table"]

VERSION_PREFIX: Final = "version-"


class TablesMissing(StoreError):
    """Raised if no tables were built in a folder, or if the requested table is not among them."""


class TablesDamaged(TablesMissing):
    """Raised if files of the tables are missing, or are not those that the build has written."""


class NewerVersionIsCurrent(StoreError):
    """Raised if a version would become current although another build, which began no earlier, has ended before."""


class TablesVersion(msgspec.Struct, frozen=True):
    """One version of the tables, which one build has made."""

    name: str
    """The name of the version's folder below `DIR/tables`."""
    events: str
    """`events_fingerprint` of the events from which the version was built."""
    tables: tuple[str, ...]
    files: dict[str, dict[str, int]] = {}
    """The files of each table and of the states, with their sizes in bytes, by the name of the folder below that of the
    version. Empty in versions of releases that did not note them."""

    @property
    def number(self) -> int:
        return version_number(self.name)


def read_table(spark: SparkSession, folder: LocationLike, name: str, version: TablesVersion | None = None) -> DataFrame:
    """A table of the current version, or of the given one. Raises TablesMissing, TablesDamaged,
    UnsupportedFolderVersion.

    Read the current version once and pass it for several tables that have to be of one build.
    """
    place = location_of(folder, spark)
    check_format(place)
    chosen = version or current_version(place)
    if chosen is None:
        raise TablesMissing(f"no tables in {folder}: regroup pipeline tables {folder}")
    if name not in chosen.tables:
        raise TablesMissing(f"unknown table {name!r}; tables in {folder}: {', '.join(sorted(chosen.tables))}")
    check_table(place, chosen, name)
    table = spark.read.parquet((tables_folder(place) / chosen.name / name).for_spark)
    if lacking := [each for each in TABLE_SCHEMAS[name].names if each not in table.columns]:
        raise TablesDamaged(
            f"the table {name} in {folder} lacks {', '.join(lacking)}: regroup pipeline tables {folder} --full"
        )
    return table


def check_table(folder: LocationLike, version: TablesVersion, name: str) -> None:
    """Raise TablesDamaged if the files of a table, or of the states, are not those that the build has written.

    Their names and sizes are compared. Spark would leave out a file of zero bytes, and read one that was added.
    """
    place = tables_folder(folder) / version.name / name
    found, written = part_files(place), version.files.get(name)
    if found == written or (written is None and found):
        return
    if not found:
        raise TablesDamaged(f"{place} is missing: regroup pipeline tables {folder}")
    again = f"regroup pipeline tables {folder} --full"
    for file in sorted({**(written or {}), **found}):
        size, was = found.get(file), (written or {}).get(file)
        if size is None:
            raise TablesDamaged(f"{place / file} is missing: {again}")
        if was is None:
            raise TablesDamaged(f"{place / file} is not of the build that wrote the table: {again}")
        if size != was:
            raise TablesDamaged(f"{place / file} is damaged, with {size:,} of its {was:,} bytes: {again}")


def check_version(folder: LocationLike, version: TablesVersion) -> None:
    """Raise TablesDamaged if the version's folder is missing, or any of its files, or if one has another size."""
    place = tables_folder(folder) / version.name
    if not place.is_folder():
        raise TablesDamaged(f"{place} is missing: regroup pipeline tables {folder}")
    for name in version.files:
        check_table(folder, version, name)


def part_files(folder: Location) -> dict[str, int]:
    """The names of the Parquet files in a folder that Spark reads, each with its size in bytes."""
    return {file.name: size for file, size in folder.files("[!._]*.parquet").items()}


def files_of_version(version: Location) -> dict[str, dict[str, int]]:
    """What a new version has to note as its `files`."""
    return {each.name: part_files(each) for each in version.folders()}


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
    """A folder for the next version. Its name has a random part, so that no other build takes the same.

    The number is higher than that of the current version too, even if that one's folder was removed.
    """
    numbers = [version_number(each.name) for each in tables_folder(folder).folders()]
    with suppress(TablesMissing):  # a damaged current.json is written again
        current = current_version(folder)
        numbers += [current.number] if current else []
    return tables_folder(folder) / f"{VERSION_PREFIX}{max(numbers, default=0) + 1:06}-{uuid4().hex[:4]}"


def make_current(folder: LocationLike, version: TablesVersion) -> None:
    """Write this version to `current.json`, so that readers use it from now on.

    Raises NewerVersionIsCurrent if the current version has a higher number, or the same one and another name, and
    TablesDamaged if files of this version are gone, or a table of it has none.
    """
    current = None
    with suppress(TablesMissing):  # a damaged current.json is written again
        current = current_version(folder)
    if current is not None and current.number >= version.number and current.name != version.name:
        raise NewerVersionIsCurrent(
            f"the tables in {folder} are those of another build now ({current.name}), which ended before this one "
            f"({version.name}): they stay as they are. Let one build at a time write to a folder."
        )
    check_version(folder, version)
    for name in version.tables:
        check_table(folder, version, name)
    (tables_folder(folder) / "current.json").replace(msgspec.json.encode(version))


def remove_old_versions(folder: LocationLike) -> Iterator[str]:
    """Remove the versions that are older than the current one, and yield the name of each that is removed.

    A newer version is kept, since a build may still be writing it. Tables of releases that had no versions are removed,
    too. Raises TablesDamaged, and removes nothing, if the current version is not whole: an older one may be the last
    that can be read. Raises StoreLocked if a build runs, and StoreFailed at the end if some versions could not be
    removed.
    """
    with exclusive_tables_writer(folder):
        current = current_version(folder)
        if current is None:
            return
        check_version(folder, current)
        old = [each for each in tables_folder(folder).folders() if version_number(each.name) < current.number]
        failures = []
        for each in old:
            try:
                each.remove_folder()
            except StoreFailed as error:
                failures.append(str(error))
            else:
                yield each.name
    if failures:
        raise StoreFailed("; ".join(failures))


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
