"""Play one seed, or one scenario, and tell what became of it.

regroup chaos run --seed 7
regroup chaos run --seed 7 --check-determinism
regroup chaos run --scenario leader-crashes-before-syncing --store groups.db
"""

import argparse
import os
import shlex
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from regroup.cli.store.events import as_jsonl
from regroup.cli.store.events_text import as_text
from regroup.cli.terminal.consoles import Plain
from regroup.cli.terminal.output import own_name
from regroup.lab.plan.library import find_plan
from regroup.lab.plan.plan import Plan
from regroup.lab.plan.yaml_format import write_plan
from regroup.lab.search.hunt import Findings
from regroup.lab.search.swarm import describe, draw_plan
from regroup.lab.search.trial import finding_in, planted
from regroup.lab.simulation.world import Outcome, play
from regroup.storage.records import Record
from regroup.storage.sqlite.inline import open_inline_store

NOT_DETERMINISTIC: Final = 4
MOST_ROWS: Final = 40
MOST_SENTENCES: Final = 5
NOTABLE: Final = frozenset(
    {"generation-started", "group-emptied", "member-expelled", "member-left", "coordinator-loaded", "group-deleted"}
)
"""Events that tell in short what happened."""
HASH_SEEDS: Final = ("1", "2")


def run(args: argparse.Namespace) -> int:
    """0, 1, 3 or 4, as `regroup chaos --help` has it."""
    if args.check_determinism and args.store is not None:
        raise ValueError("--check-determinism compares two runs and keeps neither; leave out --store")
    plan = plan_of(args)
    if args.save is not None:
        args.save.write_text(write_plan(plan), encoding="utf-8")
    print(describe(plan))
    if args.check_determinism:
        return compare(plan, args.bug)
    outcome = played(plan, args.bug, args.store)
    tell_history(outcome.records)
    return tell_verdict(outcome, replay_line(args))


# -- what is played


def plan_of(args: argparse.Namespace) -> Plan:
    """As the seed draws it, or as the scenario has it."""
    if args.scenario is None:
        plan = draw_plan(1 if args.seed is None else args.seed)
    else:
        plan = find_plan(args.scenario)
        plan = plan if args.seed is None else replace(plan, seed=args.seed)
    return plan if args.until is None else until(plan, args.until)


def until(plan: Plan, time_ms: int) -> Plan:
    """The same, but nothing happens after this time, and the groups heal from then on."""
    happenings = tuple(each for each in plan.happenings if each.when.after or each.when.delay_ms <= time_ms)
    return replace(plan, happenings=happenings, heal_ms=time_ms)


def replay_line(args: argparse.Namespace) -> str:
    """What to type to see the same again."""
    words = ["chaos", "run"]
    for option in ("seed", "scenario", "until", "bug"):
        value = getattr(args, option)
        if value not in (None, ""):
            words += [f"--{option}", f"{value}ms" if option == "until" else str(value)]
    return f"{own_name()} {shlex.join(words)}"


# -- playing


def played(plan: Plan, bug: str, store: Path | None) -> Outcome:
    """What became of it. The history lies in the store then, too."""
    if store is not None and store.exists():
        raise ValueError(f"{store} is there already; a run begins a new history, so name another file")
    with planted(bug):
        return play(plan, open_store=partial(open_inline_store, store) if store else None)


def canonical_rows(plan: Plan, bug: str) -> list[str]:
    """As `regroup events --format jsonl` shows them."""
    with planted(bug):
        return [as_jsonl(record) for record in play(plan).records]


def compare(plan: Plan, bug: str) -> int:
    """Play it in two processes with different hash seeds: whatever walks a set comes out in another order."""
    one, other = (rows_with(hash_seed, plan, bug) for hash_seed in HASH_SEEDS)
    for number, (left, right) in enumerate(zip_longest(one, other), start=1):
        if left != right:
            print(f"Not deterministic. Row {number} was\n  {left}\nand then\n  {right}")
            return NOT_DETERMINISTIC
    print(f"Deterministic: {len(one)} rows, the same in two processes with different hash seeds.")
    return 0


def rows_with(hash_seed: str, plan: Plan, bug: str) -> list[str]:
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = hash_seed
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            return process.submit(canonical_rows, plan, bug).result()
    finally:
        del os.environ["PYTHONHASHSEED"]
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


# -- telling


def tell_history(records: Sequence[Record]) -> None:
    """The notable events, the last ones if there are many."""
    show = Plain().print
    notable = [record for record in records if record.type in NOTABLE]
    print(f"\n{len(records)} events were stored; these tell in short what happened:")
    if len(notable) > MOST_ROWS:
        print(f"  … {len(notable) - MOST_ROWS} earlier ones …")
    for record in notable[-MOST_ROWS:]:
        show(as_text(record))


def tell_verdict(outcome: Outcome, line: str) -> int:
    """What it cost, what is broken, and how to see it again."""
    print(f"\nCounted: {outcome.verdict.counts}")
    finding = finding_in(outcome)
    if finding is None:
        print(f"Nothing is broken, and every group is well again after {outcome.ended_ms / 1000:.1f} s.")
        return Findings().exit_code
    for sentence in outcome.verdict.sentences[:MOST_SENTENCES]:
        first = next(each for each in outcome.verdict.broken if each.sentence == sentence)
        print(f"\nBroken: {first}")
    if (more := len(outcome.verdict.sentences) - MOST_SENTENCES) > 0:
        print(f"\n… and {more} more sentences.")
    print(f"\nOnce more: {line}")
    return Findings(1, [finding]).exit_code
