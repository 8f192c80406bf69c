"""The job of `regroup chaos hunt`: runs many seeds, shows the failures, and shrinks the first one of each kind."""

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Final

from regroup.cli.chaos.verdicts import Verdict, write_verdicts
from regroup.cli.jobs import FILE_ERRORS, cannot_run_after
from regroup.cli.result_files import write_result
from regroup.cli.terminal.output import EXIT_INTERRUPTED, program_name
from regroup.cli.terminal.progress import ProgressReporter
from regroup.cli.terminal.text import counted
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.yaml_format import write_plan
from regroup.lab.search.bug_detection import plan_size, with_title
from regroup.lab.search.hunt import Findings, hunt
from regroup.lab.search.seed_run import Finding, fails_with, plant_bug, run_seed
from regroup.lab.search.shrink import shrink
from regroup.lab.search.swarm import draw_plan

MAX_LISTED_SEEDS: Final = 8


@cannot_run_after(ValueError, *FILE_ERRORS)
def run(args: Namespace) -> int:
    with plant_bug(args.bug):
        pass  # an unknown bug is refused before the hunt
    findings = hunt_seeds(args)
    print_findings(findings, args.bug)
    write_verdicts(verdicts_of_hunt(findings, args), args)
    if findings.was_interrupted:
        print("\nThe hunt was interrupted; this is what was found until then.")
        return EXIT_INTERRUPTED
    if args.shrink:
        for found in findings.by_sentence.values():
            save_shrunk(found[0], args.bug, args.save_in)
    return findings.exit_code


def hunt_seeds(args: Namespace) -> Findings:
    with ProgressReporter() as report:

        def on_progress(findings: Findings) -> None:
            report(f"running, {len(findings.found)} found", findings.played, len(args.seeds))

        return hunt(args.seeds, args.jobs, partial(run_seed, draw=draw_plan, bug=args.bug), on_progress=on_progress)


def verdicts_of_hunt(findings: Findings, args: Namespace) -> list[Verdict]:
    """A verdict for the run of each seed."""
    found = {each.seed: each for each in findings.found}
    verdicts = []
    for seed in args.seeds[: findings.played]:
        command = f"{program_name()} chaos run --seed {seed}{_bug_option(args.bug)}"
        violations = [f"{found[seed].sentence} {found[seed].detail}"] if seed in found else []
        verdicts.append(Verdict(name=f"seed {seed}", seed=seed, violations=violations, command=command))
    return verdicts


def print_findings(findings: Findings, bug: str) -> None:
    """Print each violated invariant once, with the seeds that violate it and the command that repeats the first of
    them."""
    failed = len(findings.found)
    print(f"{counted(findings.played, 'seed')} {'was' if findings.played == 1 else 'were'} run, {failed} failed.")
    for sentence, found in findings.by_sentence.items():
        seeds = [str(each.seed) for each in found]
        more = f" and {len(seeds) - MAX_LISTED_SEEDS} more" if len(seeds) > MAX_LISTED_SEEDS else ""
        print(f"\n{sentence}\n  seeds {', '.join(seeds[:MAX_LISTED_SEEDS])}{more}")
        print(f"  {found[0].detail}\n  {program_name()} chaos run --seed {found[0].seed}{_bug_option(bug)}")


def save_shrunk(finding: Finding, bug: str, folder: Path) -> None:
    """Shrink the run of a finding, save the result as a scenario, and print the command that repeats it."""
    with ProgressReporter() as report:

        def on_progress(smallest: SimulationPlan, runs: int) -> None:
            report(f"shrinking seed {finding.seed}, down to {plan_size(smallest)}, runs", runs)

        small = shrink(draw_plan(finding.seed), fails_with(finding.sentence, bug), on_progress=on_progress)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"chaos-seed-{finding.seed}.yaml"
    write_result(path, write_plan(with_title(small.plan, finding, bug)))
    print(f"\nSeed {finding.seed} was reduced to {plan_size(small.plan)} in {small.runs} runs:")
    print(f"  {program_name()} chaos run --scenario {path}{_bug_option(bug)}")


def _bug_option(bug: str) -> str:
    return f" --bug {bug}" if bug else ""
