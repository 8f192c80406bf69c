"""Thousands of simulations, spread over Spark's tasks: what does it cost, and what would have been right?

regroup campaign pipeline/plans/static-or-dynamic.yaml out       simulate; again to go on where it was stopped
regroup pipeline tables out && regroup report out                 tables, and a page to look at
regroup campaign PLAN --only RUN --store run.db                   play one run again, into a store of its own
"""

import argparse
from pathlib import Path

from regroup.cli.spark.arguments import add_spark, run_in


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", type=Path, help="a grid of scenarios (docs/pipeline.md)")
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", default=Path("campaign"))
    parser.add_argument("--only", metavar="RUN", help="play this one run, in this process")
    parser.add_argument("--store", metavar="FILE", type=Path, help="with --only: the store that the run is written to")
    add_spark(parser)


def run(args: argparse.Namespace) -> int:
    return run_in("regroup.cli.spark.campaign_job", args)
