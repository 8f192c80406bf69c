"""The jobs of `regroup pipeline` (ingest, tables, show and replay) and of `regroup report`."""

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from regroup.cli.jobs import CannotRun, cannot_run_after
from regroup.cli.spark.session import STOPPED_NOT_RESUMABLE, STOPPED_RESUMABLE, run_on_spark
from regroup.cli.store.group_json import with_decoded_bytes
from regroup.cli.terminal.progress import ProgressReporter
from regroup.cli.terminal.text import counted, printable, printable_json
from regroup.pipeline.bronze import ingest as bronze
from regroup.pipeline.campaign import runner as campaign
from regroup.pipeline.campaign.grid import InvalidCampaign
from regroup.pipeline.gold import build
from regroup.pipeline.output_folder import check_format, tables_are_current
from regroup.pipeline.report.page import write_report


def ingest(args: Namespace) -> int:
    check_format(args.folder)
    return run_on_spark(args, _ingest, when_stopped=STOPPED_RESUMABLE)


def tables(args: Namespace) -> int:
    check_format(args.folder)
    if not any((args.folder / name).is_dir() for name in ("bronze", "events")):
        raise CannotRun(f"no events in {args.folder}: regroup pipeline ingest STORES {args.folder}")
    return run_on_spark(args, _tables, when_stopped=STOPPED_NOT_RESUMABLE)


def show(args: Namespace) -> int:
    known = table_names(args.folder)
    check_format(args.folder)
    if args.table not in known:
        require_tables(args.folder)
        raise CannotRun(f"unknown table {args.table!r}; tables in {args.folder}: {', '.join(known)}")
    return run_on_spark(args, _show, when_stopped=STOPPED_NOT_RESUMABLE)


def replay(args: Namespace) -> int:
    require_tables(args.folder)
    return run_on_spark(args, _replay, when_stopped=STOPPED_NOT_RESUMABLE)


@cannot_run_after(InvalidCampaign)
def report(args: Namespace) -> int:
    """Check the tables before Spark is started."""
    require_tables(args.folder)
    if not tables_are_current(args.folder):
        raise CannotRun(f"the tables in {args.folder} lack newer events: regroup pipeline tables {args.folder}")
    return run_on_spark(args, _report, when_stopped=STOPPED_NOT_RESUMABLE)


def require_tables(folder: Path) -> None:
    """Raise CannotRun if no tables were built, and UnsupportedFolderVersion if the folder has another format."""
    check_format(folder)
    if not (folder / "tables").is_dir():
        raise CannotRun(f"no tables in {folder}: regroup pipeline tables {folder}")


def table_names(folder: Path) -> list[str]:
    """The tables that were built, and `runs`, which a campaign has written itself."""
    found = sorted(each.parent.name for each in folder.glob("tables/*/_SUCCESS"))
    return [*found, "runs"] if any(folder.glob("runs/*.parquet")) else found


def _ingest(spark: SparkSession, args: Namespace) -> int:
    with ProgressReporter() as on_progress:
        result = bronze.ingest(spark, args.stores, args.folder, on_error=args.on_error, progress=on_progress)
    for each in result.skipped:
        print(printable(f"skipped: {each.reason}"), file=sys.stderr)
    print(f"{counted(result.stores, 'store')}, {result.new_events:,} new events, {len(result.skipped)} skipped")
    return 1 if result.skipped else 0


def _tables(spark: SparkSession, args: Namespace) -> int:
    with ProgressReporter() as on_progress:
        build.build_tables(spark, args.folder, progress=on_progress)
    for name in build.TABLE_NAMES:
        print(f"{build.read_table(spark, args.folder, name).count():>12,}  {name}")
    violations = build.read_table(spark, args.folder, "violations").orderBy("store", "position").limit(10).collect()
    for row in violations:
        print(printable(f"{row.store}, group {row.group}, position {row.position}: {row.sentence}"), file=sys.stderr)
    return 1 if violations else 0


def _show(spark: SparkSession, args: Namespace) -> int:
    if args.table == "runs":
        table = campaign.read_runs(spark, args.folder)
    else:
        table = build.read_table(spark, args.folder, args.table)
    table.show(args.limit, truncate=80)
    return 0


def _replay(spark: SparkSession, args: Namespace) -> int:
    stores: dict[str, dict[str, Any]] = {}
    for row in build.read_table(spark, args.folder, "groups").orderBy("store", "group").collect():
        stores.setdefault(row.store, {})[row.group] = with_decoded_bytes(json.loads(row.json))
    print(printable_json(json.dumps(stores, indent=2, ensure_ascii=False)))
    return 0


def _report(spark: SparkSession, args: Namespace) -> int:
    print(write_report(spark, args.folder))
    return 0
