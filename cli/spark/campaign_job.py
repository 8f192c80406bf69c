"""What `regroup campaign` does: the whole grid on Spark, or one run of it in this process."""

import argparse
import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from regroup.cli.spark.session import on_spark
from regroup.cli.terminal.output import complain
from regroup.cli.terminal.progress import Telling
from regroup.lab.simulation.world import play
from regroup.pipeline.atomic_files import make_folder
from regroup.pipeline.campaign import run as of
from regroup.pipeline.campaign.grid import BadCampaign, Campaign, find, read_campaign
from regroup.storage.records import NewRecord, Record
from regroup.storage.sqlite.threaded import open_store

Result = TypeVar("Result")


def run(args: argparse.Namespace) -> int:
    """A plan that cannot be meant, or has no place in the folder, is told before Spark is started."""
    try:
        campaign = read_campaign(args.plan)
        if args.only:
            return replay_one(campaign, args)
        make_folder(args.folder)
        of.check_folder(campaign, args.folder)
        return on_spark(args, partial(simulate, campaign))
    except BadCampaign as error:
        complain("campaign", str(error))
        return 2


def simulate(campaign: Campaign, spark: SparkSession, args: argparse.Namespace) -> int:
    began = time.monotonic()
    with Telling() as telling:
        work = partial(of.run_campaign, spark, campaign, args.folder, progress=telling)
        played = stopped_by_hand(work, spark.sparkContext.cancelAllJobs)
    took = time.monotonic() - began
    rate = f", {played / took * 60:,.0f} a minute" if played else ""
    there = sum(last - first for first, last in of.played_in(args.folder))
    print(f"{there:,} runs of {len(campaign.cells)} cells; {played:,} played now{rate}")
    broken = of.runs(spark, args.folder).where("size(broken) > 0").limit(10).collect()
    for row in broken:
        print(f"{row.broken[0]} Replay: {of.line_to_replay(args.plan, row.store)}", file=sys.stderr)
    return 1 if broken else 0


def stopped_by_hand(work: Callable[[], Result], stop: Callable[[], None]) -> Result:
    """Do the work in another thread, since this one hears Ctrl-C, and must not be talking to Java when it does.

    Spark's own way is to cancel its jobs in the middle of whatever was being said. Raises KeyboardInterrupt.
    """
    pressed = threading.Event()

    def press(*_: object) -> None:
        pressed.set()
        stop()

    before = signal.signal(signal.SIGINT, press)
    with ThreadPoolExecutor(1) as worker:
        working = worker.submit(work)
    signal.signal(signal.SIGINT, signal.SIG_IGN if pressed.is_set() else before)
    if pressed.is_set():
        raise KeyboardInterrupt
    return working.result()


def replay_one(campaign: Campaign, args: argparse.Namespace) -> int:
    if args.store and args.store.exists():
        raise BadCampaign(f"{args.store} is there already: name a new file for the run")
    outcome = of.judged(play(campaign.plan(find(campaign, args.only))))
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
