"""From the stores of many runs, or of a long one, to tables: on Spark, on this machine or on a cluster.

regroup pipeline ingest 'runs/*.db' out                events to Parquet, each once; again for what is new
regroup pipeline tables out                            rebalances, ownership, gaps … below out/tables
regroup pipeline show out gaps --limit 20              look at a table
regroup pipeline replay out                            every group's final state, as regroup replay tells it
regroup report out                                     one page to look at
"""

import argparse
import sys
from pathlib import Path

from regroup.cli.spark.arguments import add_on_error, add_spark, run_in


def add_arguments(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    taking = steps.add_parser("ingest", help="take the events of stores in, as Parquet")
    taking.add_argument("stores", metavar="STORES", help="files or patterns, with commas between them: 'runs/*.db'")
    taking.add_argument("folder", metavar="DIR", type=Path)
    add_on_error(taking)
    building = steps.add_parser("tables", help="build every table from what has been taken in")
    showing = steps.add_parser("show", help="look at a table")
    replaying = steps.add_parser("replay", help="every group's final state, as JSON")
    for each in (building, showing, replaying):
        each.add_argument("folder", metavar="DIR", type=Path)
    showing.add_argument("table", metavar="TABLE", help="see docs/tables.md")
    showing.add_argument("--limit", metavar="N", type=rows, default=20, help="rows (default 20)")
    for each in (taking, building, showing, replaying):
        add_spark(each)


def run(args: argparse.Namespace) -> int:
    fault = "" if args.step == "ingest" else not_ready(args)
    if fault:
        print(f"regroup pipeline: {fault}", file=sys.stderr)
        return 2
    return run_in("regroup.cli.spark.pipeline_job", args)


def not_ready(args: argparse.Namespace) -> str:
    """What has to be done first, in words; empty if nothing has."""
    folder = args.folder
    if args.step == "tables":
        there = (folder / "bronze").is_dir() or (folder / "events").is_dir()
        return "" if there else f"nothing has been taken in at {folder}: regroup pipeline ingest STORES {folder}"
    known = tables_in(folder)
    if args.step == "show" and args.table in known:
        return ""
    if not (folder / "tables").is_dir():
        return f"there are no tables in {folder}: regroup pipeline tables {folder}"
    if args.step == "show":
        return f"there is no table {args.table!r}; there are {', '.join(known)}"
    return ""


def tables_in(folder: Path) -> list[str]:
    """By name. A campaign has written one itself, beside those that are made of its events."""
    found = sorted(each.parent.name for each in folder.glob("tables/*/_SUCCESS"))
    return [*found, "runs"] if any(folder.glob("runs/*.parquet")) else found


def rows(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"it is a number of rows, at least 1, not {text}")
    return number
