"""The job of `regroup chaos run`: runs one seed or one scenario, and prints its timeline and its violations."""

import asyncio
import os
import shlex
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain, count, zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from regroup.cli.chaos.report import (
    MAX_SHOWN_VIOLATIONS,
    describe_counts,
    print_expectations,
    print_missed_steps,
    print_timeline,
    violation_texts,
)
from regroup.cli.chaos.verdicts import verdict_of_run, write_verdicts
from regroup.cli.jobs import FILE_ERRORS, cannot_run_after
from regroup.cli.result_files import write_result
from regroup.cli.store.events import format_event_json
from regroup.cli.terminal.output import program_name
from regroup.cli.terminal.text import printable_lines
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.scenario_files import find_plan
from regroup.lab.plan.yaml_format import write_plan
from regroup.lab.search.hunt import Findings
from regroup.lab.search.plan_text import describe_plan
from regroup.lab.search.seed_run import MAX_CALLBACKS, finding_of, plant_bug, play_bounded
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import NO_REBALANCE_STORM, RunOutcome
from regroup.lab.simulation.timeline import Timeline
from regroup.server.recording.blocks import decode_block
from regroup.server.recording.observations import read_observations
from regroup.storage.memory import MemoryStore
from regroup.storage.sqlite.inline import open_inline_store

EXIT_NOT_DETERMINISTIC: Final = 4
HASH_SEEDS: Final = ("1", "2")


@cannot_run_after(ValueError, *FILE_ERRORS)
def run(args: Namespace) -> int:
    if args.check_determinism and args.store is not None:
        raise ValueError("--check-determinism compares two runs and stores neither; leave out --store")
    if args.store is not None and args.store.exists():
        raise ValueError(f"{args.store}: the file exists, and a run begins a new history; name another file")
    plan = requested_plan(args)
    if args.save is not None:
        write_result(args.save, write_plan(plan))
    timeline = Timeline()
    with plant_bug(args.bug):
        pass  # an unknown bug is refused before the plan is shown
    print(printable_lines(describe_plan(plan)))
    if args.check_determinism:
        return compare_two_runs(plan, args.bug, args.max_callbacks)
    with plant_bug(args.bug):
        store = partial(open_inline_store, args.store) if args.store else None
        outcome = play_bounded(
            plan,
            max_callbacks=args.max_callbacks,
            open_store=store,
            timeline=timeline,
            record=args.store is not None,
        )
    print_timeline(timeline, verbose=args.verbose)
    write_verdicts([verdict_of_run(outcome, timeline, replay_command(args))], args)
    return print_verdict(outcome, timeline, args)


def requested_plan(args: Namespace) -> SimulationPlan:
    """The plan for --seed or of --scenario; steps that are later than --until are left out."""
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
    """The shell command that repeats this run."""
    words = ["chaos", "run"]
    for option in ("seed", "scenario", "until", "bug", "max-callbacks"):
        value = getattr(args, option.replace("-", "_"))
        if value not in (None, ""):
            words += [f"--{option}", f"{value}ms" if option == "until" else str(value)]
    return f"{program_name()} {shlex.join(words)}"


def free_name(stem: str) -> str:
    """The first of `STEM.db`, `STEM-2.db` and so on that is not the name of a file in the working folder."""
    names = chain([f"{stem}.db"], (f"{stem}-{number}.db" for number in count(2)))
    return next(name for name in names if not Path(name).exists())


def compare_two_runs(plan: SimulationPlan, bug: str, max_callbacks: int | None) -> int:
    """Run the plan in two processes and compare the results; return the exit code.

    The processes have different hash seeds, so sets have different orders, which must not change a run.
    """
    one, other = (rows_in_new_process(hash_seed, plan, bug, max_callbacks) for hash_seed in HASH_SEEDS)
    for number, (left, right) in enumerate(zip_longest(one, other), start=1):
        if left != right:
            print(f"Not deterministic. Row {number} was\n  {left}\nand then\n  {right}")
            return EXIT_NOT_DETERMINISTIC
    print(f"Deterministic: {len(one)} rows, the same in two processes with different hash seeds.")
    return 0


def rows_in_new_process(hash_seed: str, plan: SimulationPlan, bug: str, max_callbacks: int | None) -> list[str]:
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = hash_seed
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            return process.submit(canonical_rows, plan, bug, max_callbacks).result()
    finally:
        del os.environ["PYTHONHASHSEED"]
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


def canonical_rows(plan: SimulationPlan, bug: str, max_callbacks: int | None = None) -> list[str]:
    """Run the plan, and return its events, its recorded rows and its violations as lines of text that can be
    compared."""
    store = MemoryStore()
    with plant_bug(bug):
        outcome = play_bounded(plan, max_callbacks=max_callbacks, open_store=store.open, record=True)
    rows = [*map(format_event_json, outcome.records), *asyncio.run(recorded_rows(store))]
    return rows + [str(each) for each in outcome.verdict.violations]


async def recorded_rows(store: MemoryStore) -> list[str]:
    """The recorded exchanges and observations of a run, each as one line of text."""
    rows = [str(row) async for block in store.read_exchanges() for row in decode_block(block)]
    return rows + [str(row) async for row in read_observations(store)]


def storm_hint(max_callbacks: int | None) -> str:
    """Why a run was taken for a rebalance storm, and what to do if it is none. `max_callbacks` is None if the default
    bounded the run."""
    bound = MAX_CALLBACKS if max_callbacks is None else max_callbacks
    return (
        f"The run was ended there: its event loop had called {bound:,} callbacks. If the plan is meant to be that "
        f"large, raise --max-callbacks."
    )


def print_verdict(outcome: RunOutcome, timeline: Timeline, args: Namespace) -> int:
    """Print what the run cost, what is violated, and how to repeat the run; return the exit code."""
    finding = finding_of(outcome)
    print_missed_steps(outcome)
    print_expectations(outcome)
    print(f"\n{describe_counts(outcome)}")
    if finding is None:
        print("No invariant was violated, and every group recovered from the faults.")
        return Findings().exit_code
    texts = list(violation_texts(outcome, timeline, verbose=args.verbose))
    for text in texts[:MAX_SHOWN_VIOLATIONS]:
        print(f"\n{printable_lines(text)}")
    if (more := len(texts) - MAX_SHOWN_VIOLATIONS) > 0:
        print(f"\n… and {more} more.")
    if NO_REBALANCE_STORM in outcome.verdict.sentences:
        print(f"\n{storm_hint(args.max_callbacks)}")
    print(f"\nTo run it again: {replay_command(args)}")
    if args.store is not None:
        print(f"What each group went through: {program_name()} story {shlex.quote(str(args.store))}")
        print(f"The same as a page: {program_name()} view {shlex.quote(str(args.store))}")
    else:
        store = free_name("run")
        print(f"To see it as a page: {replay_command(args)} --store {store} && {program_name()} view {store}")
    return Findings(1, [finding]).exit_code
