"""Break groups on purpose: consumers, brokers, network and disk on a virtual clock, everything drawn from one seed.

regroup chaos run --seed 77                          one run, and what it showed
regroup chaos run --seed 77 --store groups.db        the same, with the history in a store for `regroup events`
regroup chaos hunt --seeds 1000 --jobs 2            many runs; those that fail are made small and saved
regroup chaos list                                  the scenarios that ship with it, and the planted bugs
regroup chaos show first-join                       the file of a scenario, to learn from or to copy
regroup chaos words                                 all that a scenario file may say, and all invariants
regroup chaos bugs                                  does it find anything? Bugs are planted, and hunted

Exit codes: 0 nothing was found, 1 an invariant or an expectation is broken, 2 the command cannot be carried out,
3 a group does not recover after the faults, or reads or commits nothing then, 4 two runs of one seed differ.
"""

import os
from argparse import ArgumentParser, BooleanOptionalAction
from pathlib import Path

from regroup.cli.terminal.arguments import duration_ms, seed_range, store_file, whole_number

RUN_HELP = """\
Run one seed, or one scenario, and show what happened and what was violated.

regroup chaos run --seed 77
regroup chaos run --seed 77 --check-determinism
regroup chaos run --scenario leader-crashes-between-join-and-sync --store groups.db
"""
HUNT_HELP = """\
Run many seeds, show which of them fail and why, and make one failing run of each kind small.

regroup chaos hunt --seeds 1000 --jobs 2
regroup chaos hunt --seeds 501-1000 --save-in found
regroup chaos hunt --seeds 200 --bug two-leaders --no-shrink
regroup chaos hunt --seeds 200 --junit verdicts.xml --json verdicts.json       for a build server
"""
LIST_HELP = """\
List the scenarios and the planted bugs.

regroup chaos list
"""
SHOW_HELP = """\
Show the file of a scenario. It is what `regroup chaos run --scenario` reads: copy it, change it, run it.

regroup chaos show zombie-commits-after-removal
regroup chaos show first-join > mine.yaml && regroup chaos run --scenario mine.yaml
"""
WORDS_HELP = """\
List what a scenario file may say: steps, expectations, triggers and options; and the invariants that every run checks.

regroup chaos words
regroup chaos words network
"""
BUGS_HELP = """\
Test the lab itself: plant one bug after the other, and hunt each.

regroup chaos bugs
regroup chaos bugs --bug two-leaders --seeds 50
regroup chaos bugs --save-in found               # an interrupted command goes on where it stopped
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = __doc__
    subparsers = parser.add_subparsers(dest="what", metavar="WHAT", required=True, title="what")
    _add_run_arguments(subparsers.add_parser("run", help="run one seed or one scenario", description=RUN_HELP))
    _add_hunt_arguments(subparsers.add_parser("hunt", help="run many seeds, and show failures", description=HUNT_HELP))
    listing = subparsers.add_parser("list", help="list the scenarios and the bugs", description=LIST_HELP)
    listing.set_defaults(job="regroup.cli.chaos.bugs:show_list")
    showing = subparsers.add_parser("show", help="show the file of a scenario", description=SHOW_HELP)
    showing.set_defaults(job="regroup.cli.chaos.words:show_scenario")
    showing.add_argument("scenario", metavar="NAME|FILE", help="a scenario of `regroup chaos list`, or a file")
    words = subparsers.add_parser("words", help="list what a scenario file may say", description=WORDS_HELP)
    words.set_defaults(job="regroup.cli.chaos.words:show_words")
    words.add_argument("about", metavar="ABOUT", nargs="?", default="", help="only lines with this text")
    _add_bugs_arguments(subparsers.add_parser("bugs", help="plant bugs, and hunt them", description=BUGS_HELP))


def _add_run_arguments(parser: ArgumentParser) -> None:
    parser.set_defaults(job="regroup.cli.chaos.run:run")
    add = parser.add_argument
    add("--seed", metavar="N", type=int, help="the seed of all randomness (default: that of the scenario, or 1)")
    add("--scenario", metavar="NAME|FILE", help="a scenario of `regroup chaos list`, or of a file")
    store_help = (
        "write the history to this file, which must not exist; with all requests and what the network did to them"
    )
    add("--store", metavar="FILE", type=store_file, help=store_help)
    add("--until", metavar="TIME", type=duration_ms, help="no faults after this time of the run, for example 90s")
    add("--bug", metavar="NAME", default="", help="plant this bug")
    add("--save", metavar="FILE", type=Path, help="write the plan to this file, as a scenario")
    add(
        "--max-callbacks",
        metavar="N",
        type=whole_number(1),
        help="end the run as a rebalance storm after N callbacks of its event loop (default: 1,000,000)",
    )
    add("--verbose", action="store_true", help="the whole timeline, and the values behind a violation in full")
    _add_verdicts(parser)
    add("--check-determinism", action="store_true", help="run twice, in two processes, and compare every row")


def _add_hunt_arguments(parser: ArgumentParser) -> None:
    parser.set_defaults(job="regroup.cli.chaos.hunt:run")
    add = parser.add_argument
    seeds = seed_range(alone_is_count=True)
    add("--seeds", metavar="N|FIRST-LAST", type=seeds, default=range(1, 101), help="which seeds (default: 100)")
    _add_jobs(parser)
    add("--bug", metavar="NAME", default="", help="plant this bug")
    shrink_help = "make the first failing seed of each kind as small as possible, and save it (default)"
    add("--shrink", action=BooleanOptionalAction, default=True, help=shrink_help)
    add("--save-in", metavar="FOLDER", type=Path, default=Path(), help="where small ones are saved (default: here)")
    _add_verdicts(parser)


def _add_bugs_arguments(parser: ArgumentParser) -> None:
    parser.set_defaults(job="regroup.cli.chaos.bugs:run")
    add = parser.add_argument
    add("--bug", metavar="NAME", action="append", help="only this bug; may be repeated")
    add("--seeds", metavar="N", type=whole_number(1), default=500, help="seeds for each bug, at most (default: 500)")
    add("--runs", metavar="N", type=whole_number(0), default=150, help="runs to make a plan small (default: 150)")
    _add_jobs(parser)
    add(
        "--save-in",
        metavar="FOLDER",
        type=Path,
        help="save results and the smallest plans there, and skip bugs that have a result",
    )


def _add_verdicts(parser: ArgumentParser) -> None:
    """Add the options that write verdicts to files: --junit, for build servers, and --json."""
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write the verdict to this file, as JUnit's XML")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the verdict to this file, as JSON")


def _add_jobs(parser: ArgumentParser) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument(
        "--jobs", metavar="N", type=whole_number(1), default=cores, help=f"processes (default: one a core, {cores})"
    )
