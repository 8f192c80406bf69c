"""The job of `regroup members`: runs simulated consumers, shows what happens to them, and prints a summary."""

import asyncio
import time
from argparse import Namespace
from contextlib import nullcontext, suppress
from typing import Final

from rich.console import Console
from rich.live import Live

from regroup.cli.jobs import CannotRun, cannot_run_after
from regroup.cli.members.cluster_check import ClusterSurveyor, objections
from regroup.cli.members.fleet import FleetPlan, MemberFleet, plan_fleet
from regroup.cli.members.mqtt import MembersOverMqtt
from regroup.cli.members.table import members_table
from regroup.cli.terminal.consoles import StopOnBrokenPipeConsole
from regroup.cli.terminal.output import print_error
from regroup.cli.terminal.signals import stop_on_signals
from regroup.members.transports.tcp import TcpTransport
from regroup.mqtt.link import cancel_and_wait

REFRESH_INTERVAL_S: Final = 0.25


@cannot_run_after(ValueError)
def run(args: Namespace) -> int:
    plan = plan_fleet(args)
    mqtt = MembersOverMqtt(args) if args.mqtt else None

    async def run_until_signal() -> int:
        return await run_members(plan, stop_on_signals(), mqtt)

    return asyncio.run(run_until_signal())


async def run_members(plan: FleetPlan, stop: asyncio.Event, mqtt: MembersOverMqtt | None = None) -> int:
    """Run the members until `stop` is set, the time is over, or all have stopped; return the exit code."""
    loop = asyncio.get_running_loop()
    if plan.args.for_ms is not None:
        loop.call_later(plan.args.for_ms / 1000, stop.set)
    console = StopOnBrokenPipeConsole(stop, soft_wrap=False)
    if mqtt is None and (error := await _check_cluster(plan, stop)) is not None:
        print_error("members", f"no member joined the group: {error}")
        return 1
    fleet = MemberFleet(plan, console, int(time.time() * 1000 - loop.time() * 1000), mqtt)
    fleet.start()
    await _show_until(stop, fleet)
    views = [member.view for member in fleet.members]
    await fleet.close()
    _print_summary(console, fleet)
    if not fleet.has_joined:
        print_error("members", _why_none_joined(fleet))
    return 1 if not fleet.has_joined or any(view.condition == "failed" for view in views) else 0


async def _check_cluster(plan: FleetPlan, stop: asyncio.Event) -> str | None:
    """Print which topics do not exist. Raises CannotRun if the members would do harm in a cluster that regroup does not
    serve.

    A cluster that cannot be reached is asked again until `stop` is set; then the reason is returned.
    """
    args = plan.args
    transport = TcpTransport(args.bootstrap, client_id="regroup-members")
    surveying = asyncio.create_task(ClusterSurveyor(transport).survey(args.group, tuple(args.topic)))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((surveying, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not surveying.done():
            return transport.last_error or "they were stopped too soon"
        survey = surveying.result()
    finally:
        await cancel_and_wait(surveying)
        await cancel_and_wait(stopping)
        await transport.close()
    writes_to = tuple(args.topic) if args.records_per_s else ()
    if not args.yes and (text := objections(survey, args.group, writes_to=writes_to)):
        raise CannotRun(text)
    for topic in survey.missing_topics:
        print_error("members", f"there is no topic {topic} yet; the broker makes it, as Kafka does by default")
    return None


async def _show_until(stop: asyncio.Event, fleet: MemberFleet) -> None:
    """On a terminal, redraw the table of members until `stop` is set; elsewhere each change is printed as a line when
    it happens."""
    live = Live(console=fleet.console, auto_refresh=False)
    with live if fleet.console.is_terminal else nullcontext():
        while True:
            if fleet.console.is_terminal:
                live.update(members_table([each.view for each in fleet.members], fleet.ledger.counts), refresh=True)
            if stop.is_set() or fleet.is_over:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_INTERVAL_S):
                    await stop.wait()


def _print_summary(console: Console, fleet: MemberFleet) -> None:
    if fleet.producers:
        written = sum(producer.acknowledged_count for producer in fleet.producers)
        refused = sum(producer.refused_count for producer in fleet.producers)
        console.print(f"{written} records written, {refused} refused")
    counts = fleet.ledger.counts
    if counts.processed:
        console.print(
            f"{counts.processed} records processed: {counts.duplicates} twice, {counts.late} late, "
            f"{counts.skipped} skipped"
        )


def _why_none_joined(fleet: MemberFleet) -> str:
    errors = [each.view.last_error for each in fleet.members] + [each.last_error for each in fleet.transports]
    reasons = dict.fromkeys(error for error in errors if error and error not in ("closed", "disconnected"))
    return "no member joined the group: " + ("; ".join(reasons) or "they were stopped too soon")
