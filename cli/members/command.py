"""The job of `regroup members`: run simulated consumers, show what happens to them, and summarize it."""

import asyncio
import time
from argparse import Namespace
from contextlib import nullcontext, suppress
from typing import Final

from rich.console import Console
from rich.live import Live

from regroup.cli.jobs import cannot_run_after
from regroup.cli.members.fleet import FleetPlan, MemberFleet, plan_fleet
from regroup.cli.members.mqtt import MembersOverMqtt
from regroup.cli.members.table import members_table
from regroup.cli.terminal.consoles import StopOnBrokenPipeConsole
from regroup.cli.terminal.output import print_error
from regroup.cli.terminal.signals import stop_on_signals

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
    console = StopOnBrokenPipeConsole(stop, soft_wrap=False)
    fleet = MemberFleet(plan, console, int(time.time() * 1000 - loop.time() * 1000), mqtt)
    if plan.args.for_ms is not None:
        loop.call_later(plan.args.for_ms / 1000, stop.set)
    fleet.start()
    await _show_until(stop, fleet)
    views = [member.view for member in fleet.members]
    await fleet.close()
    _print_summary(console, fleet)
    if not fleet.has_joined:
        print_error("members", _why_none_joined(fleet))
    return 1 if not fleet.has_joined or any(view.condition == "failed" for view in views) else 0


async def _show_until(stop: asyncio.Event, fleet: MemberFleet) -> None:
    """Redraw the table on a terminal; elsewhere each change has been printed as a line."""
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
    reasons = dict.fromkeys(error for error in errors if error and error not in ("closed", "hung up"))
    return "no member joined the group: " + ("; ".join(reasons) or "they were stopped too soon")
