"""Tell stories to any address that speaks Kafka, and say behaviour by behaviour whether it does as Kafka does.

regroup conformance --bootstrap 127.0.0.1:9092
regroup conformance --bootstrap 127.0.0.1:9092 --area join,sync --json report.json
regroup conformance --bootstrap 127.0.0.1:9092 --against 127.0.0.1:9192 --seeds 1-100
regroup conformance --bootstrap 127.0.0.1:9092 --against emulator --seeds 1-100
regroup conformance --list
"""

import argparse
import asyncio
import shlex
import uuid
from collections.abc import Iterable
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from regroup.cli.conformance.arguments import OURS, add_arguments
from regroup.cli.conformance.steerable_cluster import steered_emulator
from regroup.cli.serve.log import set_up_log
from regroup.cli.terminal.output import CANNOT_BE_DONE, complain
from regroup.cli.terminal.text import printable_lines
from regroup.conformance.differential.comparison import as_json as told_as_json
from regroup.conformance.differential.comparison import as_text as told_as_text
from regroup.conformance.differential.comparison import comparison
from regroup.conformance.differential.duel import duels
from regroup.conformance.harness.cases import Case
from regroup.conformance.harness.target import NotThere, Restart, Target
from regroup.conformance.run.not_observable import UNSEEN
from regroup.conformance.run.report import Report, as_json, as_text, why_not, with_the_unseen
from regroup.conformance.run.runner import Outcome, Plan, Verdict
from regroup.conformance.run.runner import run as run_cases
from regroup.conformance.stories import CASES

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """0 when nothing failed, 1 when something did, 2 when nobody could be asked."""
    chosen = [*_chosen(args)]
    if not chosen or set(args.case) - set(CASES):
        return _cannot("no story has this name; `regroup conformance --list` shows them all")
    if args.list:
        print(*_listed(chosen, args.area), sep="\n")
        return 0
    if args.bootstrap is None:
        return _cannot("say whom to examine: --bootstrap HOST:PORT")
    try:
        if args.against is not None:
            return asyncio.run(_compare(args))
        verdicts = asyncio.run(_examine(args, chosen))
    except NotThere as reason:
        return _cannot(str(reason))
    return _tell(args, verdicts)


def _cannot(reason: str) -> int:
    complain("conformance", reason)
    return CANNOT_BE_DONE


def _chosen(args: argparse.Namespace) -> Iterable[Case]:
    for each in CASES.values():
        if (not args.area or each.area in args.area) and (not args.case or each.id in args.case):
            yield each


def _listed(cases: Iterable[Case], areas: tuple[str, ...]) -> Iterable[str]:
    for each in cases:
        needs = "; ".join(f"needs {name} {need}" for name, need in each.needs.items() if need.at_most < 2**31 - 1)
        yield f"{each.importance} {each.id}: {each.summary}{f' ({needs})' if needs else ''}"
    for name, why in UNSEEN.items():
        if not areas or name.split(".")[0] in areas:
            yield f"- {name}: not observable, {why}"


async def _examine(args: argparse.Namespace, chosen: list[Case]) -> list[Verdict]:
    target = await Target.learn(
        args.bootstrap,
        dict(args.settings),
        _restart(args.restart),
        {api: int(version) for api, version in args.newest},
    )
    plan = Plan(uuid.uuid4().hex[:8], at_once=args.at_once, longest_seconds=args.longest)
    return await run_cases(target, chosen, plan)


async def _compare(args: argparse.Namespace) -> int:
    one = await Target.learn(args.bootstrap, dict(args.settings))
    async with AsyncExitStack() as stack:
        steered = None
        if args.against == OURS:
            set_up_log("error", "text")
            steered = await stack.enter_async_context(steered_emulator(one.settings))
        outcomes = await duels(
            one,
            await Target.learn(steered.address if steered else args.against),
            args.seeds,
            uuid.uuid4().hex[:8],
            guide=steered,
            at_once=args.courses,
            slot_ms=args.slot,
        )
    told = comparison(args.bootstrap, args.against, _now(), one.settings, outcomes)
    print(*map(printable_lines, told_as_text(told)), sep="\n")
    if args.json is not None:
        args.json.write_text(told_as_json(told) + "\n", encoding="utf-8")
    return 1 if told.differ else 0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _restart(command: str | None) -> Restart | None:
    if command is None:
        return None

    async def restart() -> None:
        process = await asyncio.create_subprocess_exec(*shlex.split(command))
        if await process.wait() != 0:
            raise NotThere(f"`{command}` ended with {process.returncode}")

    return restart


def _tell(args: argparse.Namespace, verdicts: list[Verdict]) -> int:
    whole = verdicts if args.case else with_the_unseen(verdicts, args.area)
    report = Report(args.bootstrap, _now(), whole)
    print(*map(printable_lines, as_text(report, every=not args.brief)), sep="\n")
    if args.brief:
        print("", "not observable, because:", sep="\n")
        print(*(f"{count:>4}  {reason}" for reason, count in why_not(whole).items()), sep="\n")
    if args.json is not None:
        args.json.write_text(as_json(report) + "\n", encoding="utf-8")
    return 1 if any(each.outcome is Outcome.FAILED for each in verdicts) else 0
