"""Does the lab find anything? Plant one bug after the other, and hunt each.

regroup chaos zoo
regroup chaos zoo --bug two-leaders --seeds 50
regroup chaos zoo --save-in found                # the same again goes on where it was interrupted
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

from regroup.cli.terminal.progress import Telling
from regroup.lab.plan.yaml_format import write_plan
from regroup.lab.planted_bugs.registry import BUGS, bug_named
from regroup.lab.search.bug_detection import Catch, catch, draw_small

WIDEST: Final = max(map(len, BUGS))


class Row(msgspec.Struct, frozen=True):
    """What became of one bug. `seeds` were played; `sentence` is empty if none of them showed it."""

    bug: str
    limits: tuple[int, int]
    """Seeds and shrinking runs at most: with others it is hunted again."""
    seeds: int
    size: str = ""
    sentence: str = ""


def run(args: argparse.Namespace) -> int:
    """0 if every bug is found, 1 if one is not."""
    bugs = [bug_named(name).name for name in args.bug or BUGS]
    rows = [row for bug in bugs if (row := saved(bug, args.save_in)) and row.limits == (args.seeds, args.runs)]
    for row in rows:
        print(line_of(row), flush=True)
    known = [row.bug for row in rows]
    for each in caught([bug for bug in bugs if bug not in known], args):
        rows.append(row_of(each, args))
        print(line_of(rows[-1]), flush=True)
        if args.save_in is not None:
            save(each, rows[-1], args.save_in)
    missed = [row for row in rows if not row.sentence]
    print(f"{len(rows) - len(missed)} of {len(rows)} bugs were found.")
    return 1 if missed else 0


def caught(bugs: Sequence[str], args: argparse.Namespace) -> Iterator[Catch]:
    """In the order of the bugs; each process takes the next one."""
    catch_one = partial(catch, draw=draw_small, most_seeds=args.seeds, most_runs=args.runs)
    with Telling() as telling, ProcessPoolExecutor(args.jobs, get_context("spawn")) as processes:
        for number, each in enumerate(processes.map(catch_one, bugs), 1):
            telling(f"hunting, last {each.bug}", number, len(bugs))
            yield each


def row_of(each: Catch, args: argparse.Namespace) -> Row:
    sentence = each.finding.sentence if each.finding else ""
    return Row(each.bug, (args.seeds, args.runs), each.seeds, each.size, sentence)


def save(each: Catch, row: Row, folder: Path) -> None:
    """The row comes last and at once: whoever has it has all."""
    folder.mkdir(parents=True, exist_ok=True)
    if each.plan is not None:
        (folder / f"{each.bug}.yaml").write_text(write_plan(each.plan), encoding="utf-8")
    unfinished = folder / f"{each.bug}.unfinished"
    unfinished.write_bytes(msgspec.json.encode(row))
    unfinished.replace(folder / f"{each.bug}.json")


def saved(bug: str, folder: Path | None) -> Row | None:
    path = (folder or Path()) / f"{bug}.json"
    return msgspec.json.decode(path.read_bytes(), type=Row) if folder and path.exists() else None


def line_of(row: Row) -> str:
    if not row.sentence:
        return f"{row.bug:<{WIDEST}}  not in {row.seeds} seeds"
    found = f"after {row.seeds} seed{'' if row.seeds == 1 else 's'}"
    return f"{row.bug:<{WIDEST}}  {found:<15}  {row.size:<24}  {row.sentence}"
