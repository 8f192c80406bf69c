"""The job of `regroup campaign`: runs a grid of simulations on Spark, or repeats one run of it in this process."""

import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession

from regroup.cli.jobs import cannot_run_after
from regroup.cli.spark.session import STOPPED_RESUMABLE, run_on_folder, run_on_spark
from regroup.cli.terminal.progress import ProgressReporter
from regroup.cli.terminal.text import printable
from regroup.pipeline.campaign import runner
from regroup.pipeline.campaign.grid import Campaign, InvalidCampaign, find_run, read_campaign
from regroup.pipeline.locations.file_systems import file_on_disk, scheme_of
from regroup.pipeline.locations.location import location_of
from regroup.pipeline.output_folder import make_folder, removed_if_it_stays_empty
from regroup.storage.sqlite.inline import open_inline_store

Result = TypeVar("Result")


@cannot_run_after(InvalidCampaign)
def run(args: Namespace) -> int:
    """Run the campaign. The plan and the folder are checked before Spark is started."""
    campaign = read_campaign(file_on_disk(args.plan))
    if args.only:
        return repeat_run(campaign, args)
    if args.folder is None:
        raise InvalidCampaign(
            f"{campaign.run_count:,} runs would be simulated: name the folder to write them to, "
            f"as in regroup campaign {args.plan} out"
        )
    if scheme_of(args.folder) != "file":
        check = partial(runner.check_folder, campaign)
        return run_on_folder(args, check, partial(_simulate, campaign), when_stopped=STOPPED_RESUMABLE)
    with removed_if_it_stays_empty(args.folder):
        make_folder(args.folder)
        runner.check_folder(campaign, args.folder)
        return run_on_spark(args, partial(_simulate, campaign), when_stopped=STOPPED_RESUMABLE)


def _simulate(campaign: Campaign, spark: SparkSession, args: Namespace) -> int:
    began_s = time.monotonic()
    with ProgressReporter() as report:
        work = partial(runner.run_campaign, spark, campaign, args.folder, progress=report)
        simulated = run_interruptibly(work, spark.sparkContext.cancelAllJobs)
    rate = f", {simulated / (time.monotonic() - began_s) * 60:,.0f} a minute" if simulated else ""
    total = sum(last - first for first, last in runner.simulated_ranges(location_of(args.folder, spark)))
    print(f"{total:,} runs of {len(campaign.cells)} cells; {simulated:,} simulated now{rate}")
    failed = runner.read_runs(spark, args.folder).where("size(violations) > 0").limit(10).collect()
    for row in failed:
        again = runner.replay_command(args.plan, row.store)
        print(printable(f"{row.violations[0]} Replay: {again}"), file=sys.stderr)
    return 1 if failed else 0


def run_interruptibly(work: Callable[[], Result], cancel: Callable[[], None]) -> Result:
    """Run `work` in another thread. Ctrl-C calls `cancel`, and KeyboardInterrupt is raised when the work has ended.

    Python handles signals in the main thread, which must not be in the middle of a call to Java then.
    """
    interrupted = threading.Event()

    def on_interrupt(*_: object) -> None:
        interrupted.set()
        cancel()

    before = signal.signal(signal.SIGINT, on_interrupt)
    with ThreadPoolExecutor(1) as worker:
        future = worker.submit(work)
    signal.signal(signal.SIGINT, signal.SIG_IGN if interrupted.is_set() else before)
    if interrupted.is_set():
        raise KeyboardInterrupt
    return future.result()


def repeat_run(campaign: Campaign, args: Namespace) -> int:
    """Repeat one run of a campaign in this process, with its events and requests in the store that --store names."""
    file = file_on_disk(args.store) if args.store else None
    if file and file.exists():
        raise InvalidCampaign(f"{file}: the file exists; name a new file for the run")
    store = partial(open_inline_store, file) if file else None
    plan = campaign.plan(find_run(campaign, args.only))
    outcome = runner.require_stable(runner.play_run(plan, open_store=store, record=store is not None))
    print(outcome.verdict.counts, *outcome.verdict.violations, sep="\n")
    return 1 if outcome.failed else 0
