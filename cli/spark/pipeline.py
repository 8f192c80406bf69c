"""The jobs of `regroup pipeline` (ingest, tables, show, replay and clean) and of `regroup report`."""

import json
import sys
from argparse import Namespace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from regroup.cli.jobs import CannotRun, cannot_run_after
from regroup.cli.spark.session import STOPPED_NOT_RESUMABLE, STOPPED_RESUMABLE, run_on_folder
from regroup.cli.store.group_json import with_decoded_bytes
from regroup.cli.terminal.progress import ProgressReporter
from regroup.cli.terminal.text import counted, printable, printable_json
from regroup.pipeline.bronze import ingest as bronze
from regroup.pipeline.campaign import runner as campaign
from regroup.pipeline.campaign.grid import InvalidCampaign
from regroup.pipeline.gold import build
from regroup.pipeline.gold.versions import (
    TablesVersion,
    current_version,
    read_table,
    remove_old_versions,
    tables_are_current,
)
from regroup.pipeline.locations.file_systems import scheme_of
from regroup.pipeline.locations.location import LocationLike, location_of
from regroup.pipeline.output_folder import check_for_stores, check_format
from regroup.pipeline.report.page import write_report
from regroup.pipeline.source.stores import split_patterns


def ingest(args: Namespace) -> int:
    for store in split_patterns(args.stores):
        scheme_of(store)  # refuses what is no address, before Spark starts
    return run_on_folder(args, check_for_stores, _ingest, when_stopped=STOPPED_RESUMABLE)


def tables(args: Namespace) -> int:
    return run_on_folder(args, require_events, _tables, when_stopped=STOPPED_NOT_RESUMABLE)


def show(args: Namespace) -> int:
    return run_on_folder(args, partial(require_table, name=args.table), _show, when_stopped=STOPPED_NOT_RESUMABLE)


def replay(args: Namespace) -> int:
    return run_on_folder(args, require_tables, _replay, when_stopped=STOPPED_NOT_RESUMABLE)


def clean(args: Namespace) -> int:
    """Remove what is out of date in a folder. Spark is started only for an address of an object store, which needs its
    settings."""
    if scheme_of(args.folder) == "file":
        require_tables(args.folder)
        return _clean(args.folder)
    return run_on_folder(
        args,
        require_tables,
        lambda spark, args: _clean(location_of(args.folder, spark)),
        when_stopped=STOPPED_RESUMABLE,
    )


@cannot_run_after(InvalidCampaign)
def report(args: Namespace) -> int:
    return run_on_folder(args, require_current_tables, _report, when_stopped=STOPPED_NOT_RESUMABLE)


def require_events(folder: LocationLike) -> None:
    """Raise CannotRun if the folder has no events, ingested or simulated, and UnsupportedFolderVersion if it has
    another format."""
    check_format(folder)
    place = location_of(folder)
    if any((place / name).is_folder() for name in ("bronze", "snapshots", "events")):
        return
    if (place / "ingested").files("*.json"):
        raise CannotRun(f"the ingested stores have no events, so {folder} has none that could become tables")
    raise CannotRun(f"no events in {folder}: regroup pipeline ingest STORES {folder}")


def require_tables(folder: LocationLike) -> TablesVersion:
    """The current version of the tables. Raises CannotRun if there are no tables, and UnsupportedFolderVersion for
    another format."""
    check_format(folder)
    version = current_version(folder)
    if version is None:
        raise CannotRun(f"no tables in {folder}: regroup pipeline tables {folder}")
    return version


def require_current_tables(folder: LocationLike) -> None:
    """Raise CannotRun if there are no tables, or if they lack events that the folder has."""
    require_tables(folder)
    if not tables_are_current(folder):
        raise CannotRun(f"the tables in {folder} lack newer events or newer tables: regroup pipeline tables {folder}")


def require_table(folder: LocationLike, name: str) -> None:
    """Raise CannotRun if there is no table with this name. The table `runs` was written by the campaign itself."""
    check_format(folder)
    runs = ["runs"] if (location_of(folder) / "runs").files("*.parquet") else []
    if name in runs:
        return
    known = sorted(require_tables(folder).tables)
    if name not in known:
        raise CannotRun(f"unknown table {name!r}; tables in {folder}: {', '.join([*known, *runs])}")


def _ingest(spark: SparkSession, args: Namespace) -> int:
    with ProgressReporter() as on_progress:
        result = bronze.ingest(spark, args.stores, args.folder, on_error=args.on_error, progress=on_progress)
    for each in result.skipped:
        print(printable(f"skipped: {each.reason}"), file=sys.stderr)
    print(f"{counted(result.stores, 'store')}, {result.new_events:,} new events, {len(result.skipped)} skipped")
    return 1 if result.skipped else 0


def _tables(spark: SparkSession, args: Namespace) -> int:
    with ProgressReporter() as on_progress:
        incomplete = build.build_tables(spark, args.folder, is_full=args.full, progress=on_progress)
    for name in build.TABLE_NAMES:
        print(f"{read_table(spark, args.folder, name).count():>12,}  {name}")
    for store in incomplete:
        print(
            printable(
                f"{store}: its last ingest is not complete: it was interrupted, or still runs. The tables "
                f"lack what it has written: regroup pipeline ingest STORES {args.folder}, and build them again"
            ),
            file=sys.stderr,
        )
    violations = read_table(spark, args.folder, "violations").orderBy("store", "position").limit(10).collect()
    for row in violations:
        print(printable(f"{row.store}, group {row.group}, position {row.position}: {row.sentence}"), file=sys.stderr)
    return 1 if violations else 0


def _show(spark: SparkSession, args: Namespace) -> int:
    if args.table == "runs":
        table = campaign.read_runs(spark, args.folder)
    else:
        table = read_table(spark, args.folder, args.table)
    table.show(args.limit, truncate=80)
    return 0


def _replay(spark: SparkSession, args: Namespace) -> int:
    stores: dict[str, dict[str, Any]] = {}
    for row in read_table(spark, args.folder, "groups").orderBy("store", "group").collect():
        stores.setdefault(row.store, {})[row.group] = with_decoded_bytes(json.loads(row.json))
    print(printable_json(json.dumps(stores, indent=2, ensure_ascii=False)))
    return 0


def _report(spark: SparkSession, args: Namespace) -> int:
    page = write_report(spark, args.folder)
    print(f"{args.folder.rstrip('/')}/{page.name}")
    return 0


def _clean(folder: LocationLike) -> int:
    removed = 0
    for name in remove_old_versions(folder):
        print(f"removed {name}")
        removed += 1
    print(f"{counted(removed, 'older version')} removed")
    return 0
