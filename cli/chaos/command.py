"""Break groups on purpose: consumers, brokers, network and disk on a virtual clock, everything drawn from one seed.

regroup chaos run --seed 7                          one run, and what became of it
regroup chaos run --seed 7 --store groups.db        the same, for `regroup events` and all the others to read
regroup chaos hunt --seeds 1000 --jobs 2            many runs; those that fail are made small and saved
regroup chaos list                                  the scenarios that ship with it, and the bugs of the zoo
regroup chaos zoo                                   does it find anything? Bugs are planted, and hunted

Ends with 0 if nothing is found, 1 if an invariant is broken, 2 if it cannot be done, 3 if a group does not come to rest
after the faults, 4 if two runs of one seed differ.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from regroup.cli.chaos import bugs, hunt
from regroup.cli.chaos import run as chaos_run
from regroup.lab.plan.library import scenario, scenario_names
from regroup.lab.planted_bugs.registry import BUGS
from regroup.members.faults import parse_duration_ms

CANNOT_BE_DONE: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `regroup chaos`."""
    words = parser.add_subparsers(dest="what", metavar="WHAT", required=True, title="what")

    def word(name: str, line: str, text: str | None, run: Callable[[argparse.Namespace], int]) -> Callable[..., object]:
        one = words.add_parser(name, help=line, description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
        one.set_defaults(act=run)
        return one.add_argument

    _of_run(word("run", "play one seed or one scenario", chaos_run.__doc__, chaos_run.run))
    _of_hunt(word("hunt", "play many seeds, and say which of them fail", hunt.__doc__, hunt.run))
    word("list", "show the scenarios and the bugs", "Show what there is.\n\nregroup chaos list", show_list)
    _of_zoo(word("zoo", "plant one bug after the other, and hunt it", bugs.__doc__, bugs.run))


def _of_run(add: Callable[..., object]) -> None:
    add("--seed", metavar="N", type=int, help="where all chance comes from (default: that of the scenario, or 1)")
    add(
        "--scenario", metavar="NAME|FILE", help="a scenario of `regroup chaos list`, or a file, in place of a drawn one"
    )
    add("--store", metavar="FILE", type=Path, help="write the history there; the file must not exist")
    add("--until", metavar="TIME", type=_duration, help="no faults after this time of the run, for example 90s")
    add("--bug", metavar="NAME", default="", help="plant this bug of the zoo")
    add("--save", metavar="FILE", type=Path, help="write the plan there, as a scenario")
    add("--check-determinism", action="store_true", help="run twice, in two processes, and compare every row")


def _of_hunt(add: Callable[..., object]) -> None:
    add("--seeds", metavar="N|FIRST-LAST", type=_seeds, default=_seeds("100"), help="which ones (default: 100)")
    _jobs(add)
    add("--bug", metavar="NAME", default="", help="plant this bug of the zoo")
    shrink_help = "make the first failing seed of each kind as small as it can be, and save it (default)"
    add("--shrink", action=argparse.BooleanOptionalAction, default=True, help=shrink_help)
    add("--save-in", metavar="FOLDER", type=Path, default=Path(), help="where small ones are saved (default: here)")


def _of_zoo(add: Callable[..., object]) -> None:
    add("--bug", metavar="NAME", action="append", help="only this one; may be repeated")
    add("--seeds", metavar="N", type=_count, default=200, help="give a bug up after so many (default: 200)")
    add("--runs", metavar="N", type=_at_least_0, default=150, help="to make a scenario small (default: 150)")
    _jobs(add)
    add(
        "--save-in",
        metavar="FOLDER",
        type=Path,
        help="save the smallest scenarios there, and leave out what was found before",
    )


def _jobs(add: Callable[..., object]) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    add("--jobs", metavar="N", type=_count, default=cores, help=f"processes (default: one a core, {cores})")


def _duration(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    try:
        seeds = range(int(first), int(last) + 1) if dash else range(1, int(text) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} should be a number, as in 1000, or two, as in 501-1000")
    return seeds


def _count(text: str) -> int:
    return _at_least(text, 1)


def _at_least_0(text: str) -> int:
    return _at_least(text, 0)


def _at_least(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} should be a whole number, at least {least}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """What was typed; mistakes are told in one line."""
    try:
        return int(args.act(args))
    except (ValueError, FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError) as error:
        print(f"regroup chaos {args.what}: {error}", file=sys.stderr)
        return CANNOT_BE_DONE


def show_list(args: argparse.Namespace) -> int:
    """Names, each with its sentence."""
    print("Scenarios, for `regroup chaos run --scenario NAME`:")
    for name in scenario_names():
        print(f"  {name:<44}{scenario(name).title}")
    print("\nBugs, for `regroup chaos run --bug NAME` and `regroup chaos hunt --bug NAME`:")
    for bug in BUGS.values():
        print(f"  {bug.name:<44}{bug.sentence}")
    return 0
