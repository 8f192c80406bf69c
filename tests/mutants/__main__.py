"""Mutants of the coordinator and of the members, and what kills them: the lab, the conformance stories, the unit tests.

python -m tests.mutants --results mutants.jsonl                  # goes on where it was interrupted
python -m tests.mutants --results mutants.jsonl --judge lab
python -m tests.mutants --results mutants.jsonl --unless-killed-by lab  # shows the others what the lab does not kill
python -m tests.mutants --results mutants.jsonl --table
python -m tests.mutants --results mutants.jsonl --survivors lab

The mutants are drawn by a seed, an equal share of each kind (`sites.py`). Each is written into a copy of the project,
one copy for each process. The lab plays those of 200 seeds that execute the mutated line, with at
most 120 seconds of CPU time; which ones these are is seen once, and kept in a file beside the results.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.mutants.draw import draw
from tests.mutants.judges import FIRST_SEED, JUDGES, SEEDS
from tests.mutants.project_copy import ROOT, ProjectCopy
from tests.mutants.reach import read_reach
from tests.mutants.results import Verdicts, append_trial, format_survivors, format_table, is_killed, read_trials
from tests.mutants.sites import Mutation, all_mutations
from tests.mutants.trials import MissingTrial, make_trials

DEFAULT_COUNT = 400
DEFAULT_SEED = 17


def check_unmutated() -> None:
    """Show the project itself to every judge: a judge that fails it would kill every mutant."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = ProjectCopy(Path(folder))
        for name, judge in JUDGES.items():
            verdict = judge(copy, range(FIRST_SEED, FIRST_SEED + SEEDS))
            print(f"without any mutation, {name}: {verdict.outcome}, {verdict.cpu_s:.0f} s of CPU time", flush=True)
            if verdict.outcome == "killed":
                sys.exit(f"{name} fails without any mutation: {verdict.by}")


def make_missing_trials(mutants: list[Mutation], trials: Verdicts, judges: list[str], file: Path, jobs: int) -> None:
    """Make the trials that are not in the file yet, mutant by mutant in the order of the draw, and add them."""
    if all(trials.get(each.key, {}).keys() >= set(judges) for each in mutants):
        return
    if not trials:
        check_unmutated()
    reach = read_reach(file.with_suffix(".reach.json"), FIRST_SEED, SEEDS)
    missing = [
        MissingTrial(each, judge, reach.seeds_that_execute(each))
        for each in mutants
        for judge in judges
        if judge not in trials.get(each.key, {})
    ]
    for number, trial in enumerate(make_trials(missing, jobs), 1):
        append_trial(file, trial)
        trials.setdefault(trial.key, {})[trial.judge] = trial
        place = f"{trial.mutation.path}:{trial.mutation.line}"
        found = f"{trial.verdict.outcome} {trial.verdict.by[:80]}"
        print(f"{number}/{len(missing)} {trial.judge}: {place} {found}", flush=True)


def main() -> None:
    """Draw the mutants, make the trials that are missing, and print the table; or print the survivors."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, metavar="FILE", help="the verdicts, as JSON lines")
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT, metavar="N", help="how many mutants")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, metavar="N", help="the seed that draws them")
    parser.add_argument("--judge", choices=JUDGES, action="append", help="one of them; may be repeated")
    parser.add_argument(
        "--unless-killed-by", choices=JUDGES, help="make no trial of mutants that this judge has killed"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes")
    parser.add_argument("--table", action="store_true", help="print the table, and make no trial")
    parser.add_argument("--survivors", choices=JUDGES, help="print what this judge does not kill, and make no trial")
    arguments = parser.parse_args()
    mutants = draw(list(all_mutations(ROOT)), arguments.count, arguments.seed)
    trials = read_trials(arguments.results)
    if arguments.survivors:
        print(*format_survivors(mutants, trials, arguments.survivors), sep="\n")
        return
    if not arguments.table:
        judges = arguments.judge or list(JUDGES)
        tried = [each for each in mutants if not is_killed(trials.get(each.key, {}), arguments.unless_killed_by or "")]
        try:
            make_missing_trials(tried, trials, judges, arguments.results, arguments.jobs)
        except KeyboardInterrupt:
            print("interrupted; the same command goes on")
    print(*format_table(mutants, trials), sep="\n")


if __name__ == "__main__":
    main()
