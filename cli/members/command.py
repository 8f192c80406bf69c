"""Run simulated consumers against the emulator or a real Kafka, and let some of them misbehave.

regroup members --bootstrap localhost:9092 --group payments --topic orders --count 5
regroup members --bootstrap localhost:9092 --group payments --topic orders --count 3 \\
        --habit 2:pause:60s@20s --habit 3:crash@30s --records-per-s 200 --for 2m
regroup members --mqtt mqtt://localhost:1883 --group payments --topic orders --mqtt-control

Habits, each as NUMBER:HABIT, or all:HABIT, and with @WHEN behind it if need be:
  pause:20s, crash, leave, zombie, restart:5s, restart-as-stranger:5s, slow-join:5s, slow-sync:5s, never-sync,
  assignor-fails, assignor-forgets, assignor-doubles
WHEN is a time after the start (@30s) or a moment: @after-joined, @after-elected, @after-assigned, @after-revoked,
@after-lost, each with +TIME if need be (@after-assigned+5s).

Ctrl-C lets the members leave politely. Exit codes: 0 all members ended well, 1 one failed for good or none ever
joined, 2 the command cannot be carried out.
"""

import argparse
import asyncio
import signal
import time
from contextlib import suppress
from typing import Final

from rich.console import Console
from rich.live import Live

from regroup.cli.members.arguments import add_arguments, plan_of
from regroup.cli.members.fleet import Company, Plan
from regroup.cli.members.mqtt import OverMqtt
from regroup.cli.members.table import table
from regroup.cli.terminal.consoles import Stopping
from regroup.cli.terminal.output import CANNOT_BE_DONE, complain

__all__ = ["add_arguments", "plan_of", "run", "run_members"]

REFRESH_S: Final = 0.25


def run(args: argparse.Namespace) -> int:
    """Run the members until the time is over, Ctrl-C, or all of them are gone."""
    try:
        plan = plan_of(args)
    except ValueError as error:
        complain("members", str(error))
        return CANNOT_BE_DONE
    return asyncio.run(_until_signal(plan, OverMqtt(args) if args.mqtt else None))


async def _until_signal(plan: Plan, mqtt: OverMqtt | None) -> int:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    return await run_members(plan, stop, mqtt)


async def run_members(plan: Plan, stop: asyncio.Event, mqtt: OverMqtt | None = None) -> int:
    """Run until `stop`, the end of the time, or of the last member; the exit code is returned."""
    loop = asyncio.get_running_loop()
    console = Stopping(stop, soft_wrap=False)
    company = Company(plan, console, int(time.time() * 1000 - loop.time() * 1000), mqtt)
    if plan.args.for_ms is not None:
        loop.call_later(plan.args.for_ms / 1000, stop.set)
    company.start()
    await _watch(company, stop)
    views = [member.view for member in company.members]
    await company.close()
    _print_summary(console, company)
    if not company.somebody_joined:
        complain("members", _why_nobody_joined(company))
        return 1
    return 1 if any(view.condition == "failed" for view in views) else 0


async def _watch(company: Company, stop: asyncio.Event) -> None:
    """Redraw the table on a terminal; elsewhere the members' lines say everything."""
    if not company.console.is_terminal:
        while not stop.is_set() and not company.is_over:
            await _pause(stop)
        return
    with Live(console=company.console, auto_refresh=False) as live:
        while not stop.is_set() and not company.is_over:
            live.update(table([member.view for member in company.members], company.ledger.tally), refresh=True)
            await _pause(stop)
        live.update(table([member.view for member in company.members], company.ledger.tally), refresh=True)


async def _pause(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(REFRESH_S):
            await stop.wait()


def _print_summary(console: Console, company: Company) -> None:
    tally = company.ledger.tally
    written = sum(producer.written for producer in company.producers)
    refused = sum(producer.refused for producer in company.producers)
    if company.producers:
        console.print(f"{written} records written, {refused} refused")
    if tally.processed:
        console.print(
            f"{tally.processed} records processed: {tally.twice} twice, {tally.late} late, {tally.skipped} skipped"
        )


def _why_nobody_joined(company: Company) -> str:
    reasons = dict.fromkeys(
        reason
        for reason in (
            *(member.view.last_error for member in company.members),
            *(transport.last_error for transport in company.transports),
        )
        if reason and reason not in ("closed", "hung up")
    )
    return "nobody joined the group: " + ("; ".join(reasons) or "they were stopped too soon")
