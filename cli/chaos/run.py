"""The job of `regroup chaos run`: one seed or one scenario, its notable events, and what is broken."""

import os
import shlex
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import zip_longest
from multiprocessing import get_context
from typing import Final

from msgspec.structs import replace

from regroup.cli.jobs import FILE_ERRORS, cannot_run_after
from regroup.cli.store.events import format_event_json
from regroup.cli.store.events_text import format_event
from regroup.cli.terminal.consoles import PlainConsole
from regroup.cli.terminal.output import program_name
from regroup.lab.plan.library import find_plan
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.yaml_format import write_plan
from regroup.lab.search.hunt import Findings
from regroup.lab.search.plan_text import describe_plan
from regroup.lab.search.seed_run import finding_of, plant_bug
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import RunOutcome, play
from regroup.storage.records import Record
from regroup.storage.sqlite.inline import open_inline_store

EXIT_NOT_DETERMINISTIC: Final = 4
MAX_SHOWN_EVENTS: Final = 40
MAX_SHOWN_VIOLATIONS: Final = 5
NOTABLE_EVENT_TYPES: Final = frozenset(
    {"generation-started", "group-emptied", "member-removed", "member-left", "coordinator-loaded", "group-deleted"}
)
"""Events that summarize a run."""
HASH_SEEDS: Final = ("1", "2")


@cannot_run_after(ValueError, *FILE_ERRORS)
def run(args: Namespace) -> int:
    if args.check_determinism and args.store is not None:
        raise ValueError("--check-determinism compares two runs and stores neither; leave out --store")
    if args.store is not None and args.store.exists():
        raise ValueError(f"{args.store}: the file exists, and a run begins a new history; name another file")
    plan = requested_plan(args)
    if args.save is not None:
        args.save.write_text(write_plan(plan), encoding="utf-8")
    print(describe_plan(plan))
    if args.check_determinism:
        return compare_two_runs(plan, args.bug)
    with plant_bug(args.bug):
        outcome = play(plan, open_store=partial(open_inline_store, args.store) if args.store else None)
    print_history(outcome.records)
    return print_verdict(outcome, replay_command(args))


def requested_plan(args: Namespace) -> SimulationPlan:
    """The plan that the seed draws, or that the scenario describes, without steps after --until."""
    if args.scenario is None:
        plan = draw_plan(1 if args.seed is None else args.seed)
    else:
        plan = find_plan(args.scenario)
        plan = plan if args.seed is None else replace(plan, seed=args.seed)
    if args.until is None:
        return plan
    steps = tuple(each for each in plan.steps if each.trigger.milestone or each.trigger.delay_ms <= args.until)
    return replace(plan, steps=steps, faults_end_ms=args.until)


def replay_command(args: Namespace) -> str:
    """The command that repeats this run."""
    words = ["chaos", "run"]
    for option in ("seed", "scenario", "until", "bug"):
        value = getattr(args, option)
        if value not in (None, ""):
            words += [f"--{option}", f"{value}ms" if option == "until" else str(value)]
    return f"{program_name()} {shlex.join(words)}"


def compare_two_runs(plan: SimulationPlan, bug: str) -> int:
    """Run the plan in two processes with different hash seeds, which change the order of every set."""
    one, other = (rows_in_new_process(hash_seed, plan, bug) for hash_seed in HASH_SEEDS)
    for number, (left, right) in enumerate(zip_longest(one, other), start=1):
        if left != right:
            print(f"Not deterministic. Row {number} was\n  {left}\nand then\n  {right}")
            return EXIT_NOT_DETERMINISTIC
    print(f"Deterministic: {len(one)} rows, the same in two processes with different hash seeds.")
    return 0


def rows_in_new_process(hash_seed: str, plan: SimulationPlan, bug: str) -> list[str]:
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = hash_seed
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            return process.submit(canonical_rows, plan, bug).result()
    finally:
        del os.environ["PYTHONHASHSEED"]
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


def canonical_rows(plan: SimulationPlan, bug: str) -> list[str]:
    """The events of a run, as `regroup events --format jsonl` shows them."""
    with plant_bug(bug):
        return [format_event_json(record) for record in play(plan).records]


def print_history(records: Sequence[Record]) -> None:
    """Print the notable events; the last ones if there are many."""
    show = PlainConsole().print
    notable = [record for record in records if record.type in NOTABLE_EVENT_TYPES]
    print(f"\n{len(records)} events were stored; the notable ones:")
    if len(notable) > MAX_SHOWN_EVENTS:
        print(f"  … {len(notable) - MAX_SHOWN_EVENTS} earlier ones …")
    for record in notable[-MAX_SHOWN_EVENTS:]:
        show(format_event(record))


def print_verdict(outcome: RunOutcome, replay: str) -> int:
    """Print the counts, what is broken, and how to repeat the run; return the exit code."""
    verdict, finding = outcome.verdict, finding_of(outcome)
    print(f"\nCounted: {verdict.counts}")
    if finding is None:
        print(f"Nothing is broken, and every group has recovered after {outcome.ended_ms / 1000:.1f} s.")
        return Findings().exit_code
    for sentence in verdict.sentences[:MAX_SHOWN_VIOLATIONS]:
        print(f"\nBroken: {next(each for each in verdict.violations if each.sentence == sentence)}")
    if (more := len(verdict.sentences) - MAX_SHOWN_VIOLATIONS) > 0:
        print(f"\n… and {more} more broken invariants.")
    print(f"\nTo run it again: {replay}")
    return Findings(1, [finding]).exit_code
