"""What `regroup pipeline` does, with Spark at hand."""

import argparse
import json
import sys
from typing import Any, Final

from pyspark.sql import SparkSession

from regroup.cli.spark.session import BEGINS_ANEW, GOES_ON, on_spark
from regroup.cli.store.group_json import readable
from regroup.cli.terminal.progress import Telling
from regroup.cli.terminal.text import printable
from regroup.pipeline.bronze import ingest as bronze
from regroup.pipeline.campaign import run as campaign
from regroup.pipeline.event_locations import events_in
from regroup.pipeline.gold import build


def run(args: argparse.Namespace) -> int:
    """The step that was typed."""
    return on_spark(args, STEPS[args.step], when_stopped=GOES_ON if args.step == "ingest" else BEGINS_ANEW)


def ingest(spark: SparkSession, args: argparse.Namespace) -> int:
    with Telling() as telling:
        taken = bronze.ingest(spark, args.stores, args.folder, on_error=args.on_error, progress=telling)
    for each in taken.skipped:
        print(printable(f"skipped: {each.why}"), file=sys.stderr)
    stores = "1 store" if taken.stores == 1 else f"{taken.stores} stores"
    print(f"{stores}, {taken.events:,} new events, {len(taken.skipped)} skipped")
    return 1 if taken.skipped else 0


def tables(spark: SparkSession, args: argparse.Namespace) -> int:
    with Telling() as telling:
        build.build(spark, args.folder, events_in(spark, args.folder), progress=telling)
    for name in build.NAMES:
        print(f"{build.table(spark, args.folder, name).count():>12,}  {name}")
    broken = build.table(spark, args.folder, "violations").orderBy("store", "position").limit(10).collect()
    for row in broken:
        print(printable(f"{row.store}, group {row.group}, position {row.position}: {row.sentence}"), file=sys.stderr)
    return 1 if broken else 0


def show(spark: SparkSession, args: argparse.Namespace) -> int:
    of_a_campaign = args.table == "runs"
    table = campaign.runs(spark, args.folder) if of_a_campaign else build.table(spark, args.folder, args.table)
    table.show(args.limit, truncate=40)
    return 0


def replay(spark: SparkSession, args: argparse.Namespace) -> int:
    stores: dict[str, dict[str, Any]] = {}
    for row in build.table(spark, args.folder, "groups").orderBy("store", "group").collect():
        stores.setdefault(row.store, {})[row.group] = readable(json.loads(row.json))
    json.dump(stores, sys.stdout, indent=2, ensure_ascii=False)
    print()
    return 0


STEPS: Final = {"ingest": ingest, "tables": tables, "show": show, "replay": replay}
