"""The jobs of `regroup chaos bugs`, which hunts planted bugs, and of `regroup chaos list`."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

from regroup.cli.jobs import FILE_ERRORS, cannot_run_after
from regroup.cli.terminal.progress import ProgressReporter
from regroup.cli.terminal.text import counted
from regroup.lab.plan.scenario_files import scenario_names, scenario_title
from regroup.lab.plan.yaml_format import write_plan
from regroup.lab.planted_bugs.registry import BUGS, bug_named
from regroup.lab.search.bug_detection import BugDetection, detect_bug, plan_size

NAME_WIDTH: Final = max(map(len, BUGS))


class BugResult(msgspec.Struct, frozen=True):
    """The saved result of the hunt for one planted bug. `sentence` is the invariant that the bug violates.

    It is empty if no run with one of the `seeds` violated an invariant.
    """

    bug: str
    limits: tuple[int, int]
    """The most seeds, and the most runs for shrinking. With other limits than these the bug is hunted again."""
    seeds: int
    size: str = ""
    sentence: str = ""


@cannot_run_after(ValueError, *FILE_ERRORS)
def run(args: Namespace) -> int:
    """Hunt the bugs that have no saved result; return the exit code, 0 if every bug is found, 1 if one is not."""
    limits = (args.seeds, args.runs)
    bugs = [bug_named(name).name for name in args.bug or BUGS]
    paths = [args.save_in / f"{bug}.json" for bug in bugs] if args.save_in else []
    saved = [msgspec.json.decode(path.read_bytes(), type=BugResult) for path in paths if path.exists()]
    results = [each for each in saved if each.limits == limits]
    for each in results:
        print(format_result(each), flush=True)
    done = [each.bug for each in results]
    for detection in hunt_bugs([bug for bug in bugs if bug not in done], args):
        sentence = detection.finding.sentence if detection.finding else ""
        size = plan_size(detection.plan) if detection.plan else ""
        result = BugResult(detection.bug, limits, detection.seeds, size, sentence)
        results.append(result)
        print(format_result(result), flush=True)
        if args.save_in:
            save_result(result, detection, args.save_in)
    found = [each for each in results if each.sentence]
    print(f"{len(found)} of {len(results)} bugs were found.")
    return 0 if len(found) == len(results) else 1


def hunt_bugs(bugs: Sequence[str], args: Namespace) -> Iterator[BugDetection]:
    """Hunt each planted bug in a process of its own, and yield the results in the order of the bugs."""
    detect = partial(detect_bug, max_seeds=args.seeds, max_runs=args.runs)
    with ProgressReporter() as report, ProcessPoolExecutor(args.jobs, get_context("spawn")) as processes:
        for number, detection in enumerate(processes.map(detect, bugs), 1):
            report(f"hunting, last {detection.bug}", number, len(bugs))
            yield detection


def save_result(result: BugResult, detection: BugDetection, folder: Path) -> None:
    """Save the smallest plan that shows the bug, and then the result, as files in this folder.

    Each file is renamed when it is complete, so that a killed process leaves no incomplete one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if detection.plan is not None:
        (folder / f"{result.bug}.yaml").write_text(write_plan(detection.plan), encoding="utf-8")
    unfinished = folder / f"{result.bug}.unfinished"
    unfinished.write_bytes(msgspec.json.encode(result))
    unfinished.replace(folder / f"{result.bug}.json")


def format_result(result: BugResult) -> str:
    if not result.sentence:
        return f"{result.bug:<{NAME_WIDTH}}  not in {counted(result.seeds, 'seed')}"
    found = f"after {counted(result.seeds, 'seed')}"
    return f"{result.bug:<{NAME_WIDTH}}  {found:<15}  {result.size:<24}  {result.sentence}"


def show_list(args: Namespace) -> int:
    """Print the scenarios and the planted bugs, each with its description."""
    width = max(NAME_WIDTH, *map(len, scenario_names()))
    print("Scenarios, for `regroup chaos run --scenario NAME`:")
    for name in scenario_names():
        print(f"  {name:<{width}}  {scenario_title(name)}")
    print("\nBugs, for `regroup chaos run --bug NAME` and `regroup chaos hunt --bug NAME`:")
    for bug in BUGS.values():
        print(f"  {bug.name:<{width}}  {bug.sentence}")
    return 0
