"""One page about many runs: how long partitions had no owner and why, how long rebalances took, and the worst ten.

regroup report out                                     writes out/report.html, and its numbers as Parquet beside it
"""

import argparse
import sys
from pathlib import Path

from regroup.cli.spark.arguments import add_spark, run_in


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="where `regroup pipeline tables` has been")
    add_spark(parser)


def run(args: argparse.Namespace) -> int:
    if not (args.folder / "tables").is_dir():
        print(f"regroup report: no tables in {args.folder}: regroup pipeline tables {args.folder}", file=sys.stderr)
        return 2
    return run_in("regroup.cli.spark.report_job", args)
