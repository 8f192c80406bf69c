"""Does the lab find anything? Plant one bug after the other, and hunt each.

regroup chaos zoo
regroup chaos zoo --bug two-leaders --seeds 50 --save-in found
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from regroup.cli.telling import Telling
from regroup.lab.story_files import write_plan
from regroup.lab.zoo.bugs import BUGS, bug_named
from regroup.lab.zoo.catching import Catch, catch, draw_small

WIDEST: Final = max(map(len, BUGS))


def run(args: argparse.Namespace) -> int:
    """0 if every bug is found, 1 if one is not."""
    bugs = [bug_named(name).name for name in args.bug or BUGS]
    catches = []
    for each in caught(bugs, args):
        print(line_of(each), flush=True)
        catches.append(each)
    if args.save_in is not None:
        save(catches, args.save_in)
    missed = [each.bug for each in catches if each.finding is None]
    print(f"{len(catches) - len(missed)} of {len(catches)} bugs were found.")
    return 1 if missed else 0


def caught(bugs: Sequence[str], args: argparse.Namespace) -> Iterator[Catch]:
    """In the order of the bugs; each process takes the next one."""
    catch_one = partial(catch, draw=draw_small, most_seeds=args.seeds, most_runs=args.runs)
    with Telling() as telling, ProcessPoolExecutor(args.jobs, get_context("spawn")) as processes:
        for number, each in enumerate(processes.map(catch_one, bugs), 1):
            telling(f"hunting, last {each.bug}", number, len(bugs))
            yield each


def save(catches: Sequence[Catch], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for each in catches:
        if each.plan is not None:
            (folder / f"{each.bug}.yaml").write_text(write_plan(each.plan), encoding="utf-8")


def line_of(catch: Catch) -> str:
    if catch.finding is None:
        return f"{catch.bug:<{WIDEST}}  not in {catch.seeds} seeds"
    found = f"after {catch.seeds} seed{'' if catch.seeds == 1 else 's'}"
    return f"{catch.bug:<{WIDEST}}  {found:<15}  {catch.size:<24}  {catch.finding.sentence}"
