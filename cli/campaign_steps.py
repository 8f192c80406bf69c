"""What `regroup campaign` does: the whole grid on Spark, or one run of it in this process."""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from regroup.cli.on_spark import on_spark
from regroup.cli.telling import Telling
from regroup.lab.world import play
from regroup.pipeline import campaign as of
from regroup.pipeline.campaign import BadCampaign, Campaign
from regroup.storage.records import NewRecord, Record
from regroup.storage.sqlite import open_store


def run(args: argparse.Namespace) -> int:
    """A plan that cannot be meant is told before Spark is started."""
    try:
        campaign = of.read_campaign(args.plan)
        return replay_one(campaign, args) if args.only else on_spark(args, partial(simulate, campaign))
    except BadCampaign as error:
        print(f"regroup campaign: {error}", file=sys.stderr)
        return 2


def simulate(campaign: Campaign, spark: SparkSession, args: argparse.Namespace) -> int:
    began = time.monotonic()
    with Telling() as telling:
        played = of.run_campaign(spark, campaign, args.folder, progress=telling)
    took = time.monotonic() - began
    rate = f", {played / took * 60:,.0f} a minute" if played else ""
    print(f"{campaign.size:,} runs of {len(campaign.cells)} cells; {played:,} played now{rate}")
    broken = of.runs(spark, args.folder).where("size(broken) > 0").limit(10).collect()
    for row in broken:
        print(
            f"{row.broken[0]} Replay: regroup campaign {args.plan} --only {row.store} --store run.db", file=sys.stderr
        )
    return 1 if broken else 0


def replay_one(campaign: Campaign, args: argparse.Namespace) -> int:
    if args.store and args.store.exists():
        raise BadCampaign(f"{args.store} is there already: name a new file for the run")
    outcome = play(campaign.plan(of.find(campaign, args.only)))
    if args.store:
        asyncio.run(write(args.store, outcome.records))
    print(outcome.verdict.counts)
    for each in outcome.verdict.broken:
        print(each)
    return 1 if outcome.failed else 0


async def write(path: Path, records: Iterable[Record]) -> None:
    async with await open_store(path, durability="process") as store:
        await store.append(
            [NewRecord(*(getattr(each, name) for name in NewRecord.__struct_fields__)) for each in records]
        )
