"""The job of `regroup conformance`: runs stories or random courses against a broker, and prints the report."""

import asyncio
import shlex
import uuid
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from regroup.cli.conformance.arguments import OWN_EMULATOR
from regroup.cli.conformance.steerable_cluster import run_steerable_cluster
from regroup.cli.jobs import CannotRun, cannot_run_after
from regroup.cli.result_files import write_result
from regroup.cli.serve.log import configure_log
from regroup.cli.terminal.text import printable_lines
from regroup.conformance.differential.comparison import encode_comparison, format_comparison, summarize
from regroup.conformance.differential.differential_run import ComparedBrokers, run_courses
from regroup.conformance.differential.timing import UnsuitableSettings
from regroup.conformance.harness.broker_under_test import (
    KAFKA_DEFAULTS,
    ConformanceTarget,
    RestartBroker,
    TargetUnavailable,
)
from regroup.conformance.harness.cases import ConformanceCase, area_of
from regroup.conformance.run.not_observable import NOT_OBSERVABLE
from regroup.conformance.run.report import (
    ConformanceReport,
    add_not_observable,
    encode_report,
    format_remedies,
    format_report,
)
from regroup.conformance.run.runner import StoryOutcome, StoryRunOptions, run_stories
from regroup.conformance.stories import CASES


@cannot_run_after(TargetUnavailable, UnsuitableSettings)
def run(args: Namespace) -> int:
    """Carry out `regroup conformance`; return the exit code, 0 if no story or course failed, and 1 otherwise."""
    cases = [
        each
        for each in CASES.values()
        if (not args.area or each.area in args.area) and (not args.case or each.id in args.case)
    ]
    if unknown := [case for case in args.case if case not in CASES]:
        raise CannotRun(f"unknown story: {', '.join(unknown)}; `regroup conformance --list` shows all")
    if not cases:
        raise CannotRun("no story is in both --area and --case")
    if args.list:
        print(*_story_list(cases, args.area), sep="\n")
        return 0
    if args.bootstrap is None:
        raise CannotRun("name the broker to test: --bootstrap HOST:PORT")
    return asyncio.run(_run_stories(args, cases) if args.against is None else _run_courses(args))


def _story_list(cases: Iterable[ConformanceCase], areas: tuple[str, ...]) -> Iterator[str]:
    for each in cases:
        needs = "; ".join(
            f"needs {name} {need}"
            for name, need in each.required_settings.items()
            if need.nearest(KAFKA_DEFAULTS[name]) != KAFKA_DEFAULTS[name]
        )
        yield f"{each.importance} {each.id}: {each.summary}{f' ({needs})' if needs else ''}"
    for name, reason in NOT_OBSERVABLE.items():
        if not areas or area_of(name) in areas:
            yield f"- {name}: not observable, {reason}"


async def _run_stories(args: Namespace, cases: list[ConformanceCase]) -> int:
    newest = {api: int(version) for api, version in args.newest}
    restart = _restart_with(args.restart) if args.restart else None
    target = await ConformanceTarget.discover(args.bootstrap, dict(args.settings), restart, newest)
    options = StoryRunOptions(uuid.uuid4().hex[:8], at_once=args.at_once, max_case_timeout_s=args.longest)
    verdicts = await run_stories(target, cases, options)
    reported = verdicts if args.case else add_not_observable(verdicts, args.area)
    report = ConformanceReport(args.bootstrap, _now(), reported)
    print(*map(printable_lines, format_report(report, show_all=not args.brief)), sep="\n")
    if remedies := [*format_remedies(reported, args.bootstrap)]:
        print("", *map(printable_lines, remedies), sep="\n")
    _write(args.json, encode_report(report))
    return 1 if any(each.outcome is StoryOutcome.FAILED for each in verdicts) else 0


def _restart_with(command: str) -> RestartBroker:
    async def restart() -> None:
        process = await asyncio.create_subprocess_exec(*shlex.split(command))
        if await process.wait() != 0:
            raise TargetUnavailable(f"`{command}` ended with {process.returncode}")

    return restart


async def _run_courses(args: Namespace) -> int:
    restart = _restart_with(args.restart) if args.restart else None
    first = await ConformanceTarget.discover(args.bootstrap, dict(args.settings), restart)
    async with AsyncExitStack() as stack:
        steerable = None
        if args.against == OWN_EMULATOR:
            configure_log("error", "text")
            steerable = await stack.enter_async_context(
                run_steerable_cluster(first.settings, first.topic_ids_in_order())
            )
            second = await ConformanceTarget.discover(steerable.address, restart=steerable.restart)
        else:
            second = await ConformanceTarget.discover(args.against, dict(args.settings))
        label = uuid.uuid4().hex[:8]
        brokers = await ComparedBrokers.prepare(first, second, label, steering=steerable, slot_ms=args.slot)
        outcomes = await run_courses(brokers, args.seeds, at_once=args.courses)
    command = f"regroup conformance {courses_options(args)}"
    comparison = summarize(args.bootstrap, args.against, _now(), command, first.settings, outcomes)
    print(*map(printable_lines, format_comparison(comparison)), sep="\n")
    _write(args.json, encode_comparison(comparison))
    return 0 if comparison.is_equal else 1


def courses_options(args: Namespace) -> str:
    """The options that play the same random courses again, as text."""
    options = ["--bootstrap", args.bootstrap, "--against", args.against]
    options += ["--seeds", f"{args.seeds.start}-{args.seeds.stop - 1}", "--slot", str(args.slot)]
    return shlex.join([*options, "--restart", args.restart] if args.restart else options)


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        write_result(path, text + "\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
