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
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rich.console import Console
from rich.live import Live

from regroup.assignors.interface import AssignorError
from regroup.assignors.registry import assignor_named
from regroup.cli import members_mqtt
from regroup.cli.members_company import Company, Plan
from regroup.cli.members_mqtt import OverMqtt
from regroup.cli.members_table import table
from regroup.members.habits import Habit, parse_duration_ms, parse_habit
from regroup.members.happenings import Subscribe
from regroup.members.settings import ConsumerSettings
from regroup.members.tcp import parse_bootstrap
from regroup.members.workload import Workload

REFRESH_S: Final = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bootstrap", metavar="HOST:PORT", type=_typed(parse_bootstrap), help="brokers, with commas")
    members_mqtt.add_arguments(parser, where)
    add("--group", required=True, help="the group's id")
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", action="append", default=[], help="a topic; may be repeated")
    topics.add_argument("--topic-pattern", type=_typed(_pattern), help="all topics whose whole name matches")
    add("--count", type=_typed(_positive), default=3, help="how many members (default: 3)")
    add(
        "--assignor",
        metavar="NAME",
        dest="assignors",
        type=_typed(_assignor),
        action="append",
        help="the members' assignor; repeated, in the order of preference (default: cooperative-sticky)",
    )
    add(
        "--habit",
        metavar="N:HABIT",
        dest="habits",
        type=_typed(_numbered_habit),
        action="append",
        default=[],
        help="let member N, or all, misbehave; may be repeated",
    )
    add("--static", action="store_true", help="give every member a group.instance.id")
    add("--every", metavar="TIME", type=_typed(parse_duration_ms), default=0, help="start members so far apart")
    add("--for", metavar="TIME", dest="for_ms", type=_typed(parse_duration_ms), help="stop after, for example, 30s")
    add("--records-per-s", type=float, default=0.0, help="write so many records into each topic (default: none)")
    add("--keys", type=int, default=0, help="with so many different keys (default: none, partitions take turns)")
    add("--process-ms", type=float, default=0.0, help="what a member takes for a record (default: 0)")
    add("--late-after", metavar="TIME", type=_typed(parse_duration_ms), default=10_000, help="(default: 10s)")
    add("--from", dest="auto_offset_reset", choices=("earliest", "latest"), default="latest", help="without offsets")
    add("--session-timeout", metavar="TIME", type=_typed(parse_duration_ms), default=45_000, help="(default: 45s)")
    add("--heartbeat-interval", metavar="TIME", type=_typed(parse_duration_ms), default=3_000, help="(default: 3s)")
    add("--max-poll-interval", metavar="TIME", type=_typed(parse_duration_ms), default=300_000, help="(default: 5m)")


def run(args: argparse.Namespace) -> int:
    """Run the members until the time is over, Ctrl-C, or all of them are gone."""
    try:
        plan = plan_of(args)
    except ValueError as error:
        print(f"regroup members: {error}", file=sys.stderr)
        return 2
    return asyncio.run(_until_signal(plan, OverMqtt(args) if args.mqtt else None))


def _typed(parse: Callable[[str], object]) -> Callable[[str], object]:
    """argparse shows the text of its own kind of error, and of no other."""

    def parsed(text: str) -> object:
        try:
            return parse(text)
        except (ValueError, AssignorError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None


def _assignor(text: str) -> str:
    return assignor_named(text).name


def _numbered_habit(text: str) -> tuple[int | None, Habit]:
    number, _, habit = text.partition(":")
    if number != "all" and (not number.isascii() or not number.isdigit() or int(number) < 1):
        raise ValueError(f"{text!r} does not say whose habit it is; write for example 2:pause:20s or all:slow-join:5s")
    return (None if number == "all" else int(number)), parse_habit(habit)


def plan_of(args: argparse.Namespace) -> Plan:
    """Check what was typed; ValueError for what does not fit together."""
    for number, habit in args.habits:
        if number is not None and number > args.count:
            raise ValueError(f"habit {habit} is for member {number}, and there are {args.count}")
    settings = tuple(
        ConsumerSettings(
            group_id=args.group,
            client_id=f"regroup-{number}",
            group_instance_id=f"{args.group}-{number}" if args.static else None,
            partition_assignment_strategy=tuple(args.assignors or ["cooperative-sticky"]),
            session_timeout_ms=args.session_timeout,
            heartbeat_interval_ms=args.heartbeat_interval,
            max_poll_interval_ms=args.max_poll_interval,
            auto_offset_reset=args.auto_offset_reset,
        )
        for number in range(1, args.count + 1)
    )
    workload = Workload(
        records_per_s=args.records_per_s,
        keys=args.keys,
        process_ms=args.process_ms,
        late_after_ms=args.late_after,
    )
    if args.records_per_s and not args.topic:
        raise ValueError("--records-per-s writes into the topics of --topic; a pattern names none")
    habits = tuple(
        tuple(habit for whose, habit in args.habits if whose in (None, number)) for number in range(1, args.count + 1)
    )
    return Plan(args, settings, habits, Subscribe(tuple(args.topic), args.topic_pattern), workload)


async def _until_signal(plan: Plan, mqtt: OverMqtt | None) -> int:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    return await run_members(plan, stop, mqtt)


class _Console(Console):
    """Sets `stop` when the reader of its lines, `head` for instance, has seen enough."""

    def __init__(self, stop: asyncio.Event) -> None:
        super().__init__()
        self._stop = stop

    def on_broken_pipe(self) -> None:
        # Python would complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        self.quiet = True
        self._stop.set()


async def run_members(plan: Plan, stop: asyncio.Event, mqtt: OverMqtt | None = None) -> int:
    """Run until `stop`, the end of the time, or of the last member; the exit code is returned."""
    loop = asyncio.get_running_loop()
    console = _Console(stop)
    company = Company(plan, console, int(time.time() * 1000 - loop.time() * 1000), mqtt)
    if plan.args.for_ms is not None:
        loop.call_later(plan.args.for_ms / 1000, stop.set)
    company.start()
    await _watch(company, stop)
    views = [member.view for member in company.members]
    await company.close()
    _print_summary(console, company)
    if not company.somebody_joined:
        print(_why_nobody_joined(company), file=sys.stderr)
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
        console.print(f"{written} records written, {refused} refused", highlight=False)
    if tally.processed:
        console.print(
            f"{tally.processed} records processed: {tally.twice} twice, {tally.late} late, {tally.skipped} skipped",
            highlight=False,
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
    return "regroup members: nobody joined the group: " + ("; ".join(reasons) or "they were stopped too soon")
