"""Thousands of simulations, spread over Spark's tasks: what does it cost, and what would have been right?

regroup campaign pipeline/plans/static-or-dynamic.yaml out       simulate; again to go on where it was stopped
regroup pipeline tables out && regroup report out                 tables, and a page to look at
regroup campaign PLAN --only RUN --store run.db                   play one run again, into a store of its own
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from regroup.cli.spark_arguments import add_spark, is_installed, on_spark


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", type=Path, help="a grid of scenarios (docs/pipeline.md)")
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", default=Path("campaign"))
    parser.add_argument("--only", metavar="RUN", help="play this one run, in this process")
    parser.add_argument("--store", metavar="FILE", type=Path, help="with --only: the store that the run is written to")
    add_spark(parser)


def run(args: argparse.Namespace) -> int:
    return replay_one(args) if args.only else on_spark(args, simulate)


def simulate(spark: Any, args: argparse.Namespace) -> int:
    from regroup.pipeline import campaign as of  # noqa: PLC0415 - needs Spark

    campaign = of.read_campaign(args.plan)
    began = time.monotonic()
    played = of.run_campaign(spark, campaign, args.folder)
    took = time.monotonic() - began
    rate = f", {played / took * 60:,.0f} a minute" if played else ""
    print(f"{len(campaign.runs):,} runs of {len(campaign.cells)} cells; {played:,} played now{rate}")
    broken = of.runs(spark, args.folder).where("size(broken) > 0").limit(10).collect()
    for row in broken:
        print(
            f"{row.broken[0]} Replay: regroup campaign {args.plan} --only {row.store} --store run.db", file=sys.stderr
        )
    return 1 if broken else 0


def replay_one(args: argparse.Namespace) -> int:
    if not is_installed(args):
        return 2
    from regroup.lab.world import play  # noqa: PLC0415 - the lab takes a moment
    from regroup.pipeline import campaign as of  # noqa: PLC0415 - loads Spark's packages

    try:
        campaign = of.read_campaign(args.plan)
        outcome = play(campaign.plan(of.find(campaign, args.only)))
    except of.BadCampaign as error:
        print(f"regroup campaign: {error}", file=sys.stderr)
        return 2
    if args.store:
        asyncio.run(write(args.store, outcome.records))
    print(outcome.verdict.counts)
    for each in outcome.verdict.broken:
        print(each)
    return 1 if outcome.failed else 0


async def write(path: Path, records: Any) -> None:
    from regroup.storage.records import NewRecord  # noqa: PLC0415
    from regroup.storage.sqlite import open_store  # noqa: PLC0415

    async with await open_store(path, durability="process") as store:
        await store.append(
            [NewRecord(*(getattr(each, name) for name in NewRecord.__struct_fields__)) for each in records]
        )
