"""The words of `regroup members`, and what is to be done by them."""

import argparse
import re
from collections.abc import Callable

from regroup.assignors.interface import AssignorError
from regroup.assignors.registry import assignor_named
from regroup.cli.members import mqtt
from regroup.cli.members.fleet import Plan
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import Habit, parse_duration_ms, parse_habit
from regroup.members.runtime.workload import Workload
from regroup.members.transports.tcp import parse_bootstrap


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """By theme: where the members go, who they are, what they do wrong, what they work on, how patient they are."""
    _add_place(parser)
    _add_members(parser)
    _add_course(parser)
    _add_work(parser)
    _add_patience(parser)


def _add_place(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bootstrap", metavar="HOST:PORT", type=_typed(parse_bootstrap), help="brokers, with commas")
    mqtt.add_arguments(parser, where)
    parser.add_argument("--group", required=True, help="the group's id")
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", action="append", default=[], help="a topic; may be repeated")
    topics.add_argument("--topic-pattern", type=_typed(_pattern), help="all topics whose whole name matches")


def _add_members(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--count", type=_typed(_positive), default=3, help="how many members (default: 3)")
    add(
        "--assignor",
        metavar="NAME",
        dest="assignors",
        type=_typed(_assignor),
        action="append",
        help="the members' assignor; repeated, in the order of preference (default: cooperative-sticky)",
    )
    add("--static", action="store_true", help="give every member a group.instance.id")


def _add_course(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--habit",
        metavar="N:HABIT",
        dest="habits",
        type=_typed(_numbered_habit),
        action="append",
        default=[],
        help="let member N, or all, misbehave; may be repeated",
    )
    add("--every", metavar="TIME", type=_typed(parse_duration_ms), default=0, help="start members so far apart")
    add("--for", metavar="TIME", dest="for_ms", type=_typed(parse_duration_ms), help="stop after, for example, 30s")


def _add_work(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--records-per-s", type=float, default=0.0, help="write so many records into each topic (default: none)")
    add("--keys", type=int, default=0, help="with so many different keys (default: none, partitions take turns)")
    add("--process-ms", type=float, default=0.0, help="what a member takes for a record (default: 0)")
    add(
        "--late-after",
        metavar="TIME",
        type=_typed(parse_duration_ms),
        default=10_000,
        help="a record counts as late if it is processed so long after it was written (default: 10s)",
    )
    add(
        "--from",
        dest="auto_offset_reset",
        choices=("earliest", "latest"),
        default="latest",
        help="where to begin without offsets (default: latest)",
    )


def _add_patience(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--session-timeout", metavar="TIME", type=_typed(parse_duration_ms), default=45_000, help="(default: 45s)")
    add("--heartbeat-interval", metavar="TIME", type=_typed(parse_duration_ms), default=3_000, help="(default: 3s)")
    add("--max-poll-interval", metavar="TIME", type=_typed(parse_duration_ms), default=300_000, help="(default: 5m)")


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
    numbers = range(1, args.count + 1)
    settings = tuple(_settings_of(number, args) for number in numbers)
    workload = _workload(args)
    habits = tuple(tuple(habit for whose, habit in args.habits if whose in (None, number)) for number in numbers)
    return Plan(args, settings, habits, Subscribe(tuple(args.topic), args.topic_pattern), workload)


def _settings_of(number: int, args: argparse.Namespace) -> ConsumerSettings:
    return ConsumerSettings(
        group_id=args.group,
        client_id=f"regroup-{number}",
        group_instance_id=f"{args.group}-{number}" if args.static else None,
        partition_assignment_strategy=tuple(args.assignors or ["cooperative-sticky"]),
        session_timeout_ms=args.session_timeout,
        heartbeat_interval_ms=args.heartbeat_interval,
        max_poll_interval_ms=args.max_poll_interval,
        auto_offset_reset=args.auto_offset_reset,
    )


def _workload(args: argparse.Namespace) -> Workload:
    workload = Workload(
        records_per_s=args.records_per_s,
        keys=args.keys,
        process_ms=args.process_ms,
        late_after_ms=args.late_after,
    )
    if args.records_per_s and not args.topic:
        raise ValueError("--records-per-s writes into the topics of --topic; a pattern names none")
    return workload
