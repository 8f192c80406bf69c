"""Play many seeds, say which of them fail, and of what, and make what fails small.

regroup chaos hunt --seeds 1000 --jobs 2
regroup chaos hunt --seeds 501-1000 --save-in found
regroup chaos hunt --seeds 200 --bug two-leaders --no-shrink
"""

import argparse
from functools import partial
from pathlib import Path

from regroup.cli.terminal.output import own_name
from regroup.cli.terminal.progress import Telling
from regroup.lab.plan.plan import Plan
from regroup.lab.plan.yaml_format import write_plan
from regroup.lab.search.bug_detection import size_of, titled
from regroup.lab.search.hunt import Findings, hunt
from regroup.lab.search.shrink import Shrunk, shrink
from regroup.lab.search.swarm import draw_plan
from regroup.lab.search.trial import Finding, fails_with, planted, try_seed

INTERRUPTED = 130
MOST_SEEDS_NAMED = 8


def run(args: argparse.Namespace) -> int:
    """0 if nothing was found, 1 or 3 if something was, 130 if Ctrl-C ended it."""
    with planted(args.bug):
        pass  # a bug that is not there is refused before anything begins
    findings = hunted(args)
    tell(findings, args)
    for found in findings.by_sentence.values():
        if args.shrink and not findings.was_interrupted:
            tell_shrunk(found[0], args.bug, args.save_in)
    return INTERRUPTED if findings.was_interrupted else findings.exit_code


def hunted(args: argparse.Namespace) -> Findings:
    with Telling() as telling:

        def told(findings: Findings) -> None:
            telling(f"playing, {len(findings.found)} found", findings.played, len(args.seeds))

        return hunt(args.seeds, args.jobs, partial(try_seed, draw=draw_plan, bug=args.bug), progress=told)


def tell(findings: Findings, args: argparse.Namespace) -> None:
    """Each sentence once, with its first seed and the line that replays it."""
    print(f"{findings.played} seeds were played, {len(findings.found)} of them fail.")
    for sentence, found in findings.by_sentence.items():
        seeds = [str(each.seed) for each in found]
        more = f" and {len(seeds) - MOST_SEEDS_NAMED} more" if len(seeds) > MOST_SEEDS_NAMED else ""
        bug = f" --bug {args.bug}" if args.bug else ""
        print(f"\n{sentence}\n  seeds {', '.join(seeds[:MOST_SEEDS_NAMED])}{more}")
        print(f"  {found[0].detail}\n  {own_name()} chaos run --seed {found[0].seed}{bug}")
    if findings.was_interrupted:
        print("\nIt was interrupted: this is what was found so far.")


def tell_shrunk(finding: Finding, bug: str, folder: Path) -> None:
    """Make it small, save it, and say how it is replayed."""
    small = shrunk(draw_plan(finding.seed), finding, bug)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"chaos-seed-{finding.seed}.yaml"
    path.write_text(write_plan(titled(small.plan, finding, bug)), encoding="utf-8")
    planted_bug = f" --bug {bug}" if bug else ""
    print(f"\nSeed {finding.seed} came down to {size_of(small.plan)} in {small.runs} runs:")
    print(f"  {own_name()} chaos run --scenario {path}{planted_bug}")


def shrunk(plan: Plan, finding: Finding, bug: str) -> Shrunk:
    with Telling() as telling:

        def told(smallest: Plan, runs: int) -> None:
            telling(f"shrinking seed {finding.seed}, down to {size_of(smallest)}, runs", runs)

        return shrink(plan, fails_with(finding.sentence, bug), progress=told)
