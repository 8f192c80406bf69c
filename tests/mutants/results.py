"""The verdicts about mutants in a file of JSON lines, so that a run can be interrupted and continued."""

from pathlib import Path
from typing import Final

import msgspec

from tests.mutants.judges import JUDGES, Verdict
from tests.mutants.sites import KINDS, Mutation


class Trial(msgspec.Struct):
    """One mutant with the verdict of one judge."""

    key: str
    judge: str
    mutation: Mutation
    verdict: Verdict
    seeds: int
    """How many seeds of the lab execute the mutant."""


Verdicts = dict[str, dict[str, Trial]]
"""The trials of each mutant by its key, by the name of the judge."""

_DECODER: Final = msgspec.json.Decoder(Trial)


def read_trials(file: Path) -> Verdicts:
    """The trials in a file; none if there is no file. An unfinished last line is ignored."""
    found: Verdicts = {}
    for line in file.read_bytes().splitlines(keepends=True) if file.exists() else ():
        if line.endswith(b"\n"):
            trial = _DECODER.decode(line)
            found.setdefault(trial.key, {})[trial.judge] = trial
    return found


def append_trial(file: Path, trial: Trial) -> None:
    """Add a trial to the file, behind whole lines only."""
    with file.open("ab+") as lines:
        if lines.tell():
            lines.seek(-1, 2)
            if lines.read(1) != b"\n":
                content = file.read_bytes()
                lines.truncate(content.rfind(b"\n") + 1)
        lines.write(msgspec.json.encode(trial) + b"\n")


def format_table(mutants: list[Mutation], trials: Verdicts) -> list[str]:
    """A Markdown table: for each kind of mutant how many the lab kills, how many of the others stories and tests kill,
    and how many nothing kills. A mutant counts if the lab kills it, or if every judge has seen it."""
    lines = ["| Mutants | judged | lab | of the others: stories | tests | survive all |", "|---|--:|--:|--:|--:|--:|"]
    for kind in (*KINDS, "all"):
        judged = [trials.get(each.key, {}) for each in mutants if kind in (each.kind, "all")]
        killed = [each for each in judged if is_killed(each, "lab")]
        others = [each for each in judged if each.keys() >= JUDGES.keys() and not is_killed(each, "lab")]
        by_other = [sum(is_killed(each, judge) for each in others) for judge in ("stories", "tests")]
        survivors = sum(not any(is_killed(each, judge) for judge in JUDGES) for each in others)
        counts = [len(killed) + len(others), len(killed), *by_other, survivors]
        lines.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    return lines


def is_killed(trials: dict[str, Trial], judge: str) -> bool:
    """Whether a judge has killed the mutant. One that runs out of time has not."""
    return judge in trials and trials[judge].verdict.outcome == "killed"


def format_survivors(mutants: list[Mutation], trials: Verdicts, judge: str) -> list[str]:
    """The mutants that a judge does not kill, with what kills them otherwise."""
    lines = []
    for each in mutants:
        judged = trials.get(each.key, {})
        if judge not in judged or is_killed(judged, judge):
            continue
        others = [f"{name}: {judged[name].verdict.by}" for name in JUDGES if is_killed(judged, name)]
        others += [f"not judged by the {name}" for name in JUDGES if name not in judged]
        change = f"{' '.join(each.before.split())[:120]} -> {' '.join(each.after.split())[:120]}"
        lines += [
            f"{each.key} {each.path}:{each.line} {each.function} {each.kind}: {change}",
            f"    {judged[judge].seeds} seeds execute it; {'; '.join(others) or 'survives all'}",
        ]
    return lines
