"""Play seeds of the lab until one fails: `python -m tests.mutants.play_seeds SEED...`.

The exit code is 0 if none of them fails, and 1 if one does; its first violation is the last line that is printed. A
seed that takes too much CPU time counts as one that fails: its run does not end.
"""

import os
import signal
import sys
from collections.abc import Iterable
from functools import partial
from types import FrameType

from regroup.lab.search.seed_run import run_seed
from regroup.lab.search.swarm import draw_plan

SEED_CPU_S = 40
"""CPU time that one seed may take; the longest of the unmutated project, with a large group, takes a third of it."""


def end_process(seed: int, number: int, frame: FrameType | None) -> None:
    """End the process when the timer of a seed rings. An exception would be caught by a handler of the simulation."""
    print(f"seed {seed} does not end", flush=True)
    os._exit(1)


def play(seeds: Iterable[int], seed_cpu_s: float = SEED_CPU_S) -> str:
    """Play the seeds up to the first that fails, and say how; an empty text if none does."""
    for seed in seeds:
        signal.signal(signal.SIGVTALRM, partial(end_process, seed))
        signal.setitimer(signal.ITIMER_VIRTUAL, seed_cpu_s)
        try:
            finding = run_seed(seed, draw=draw_plan)
        except Exception as error:  # noqa: BLE001 - whatever the mutant raises shows it
            return f"seed {seed}: {type(error).__name__}: {error}"
        if finding:
            return f"seed {seed}: {finding.sentence}"
    return ""


if __name__ == "__main__":
    if failure := play(map(int, sys.argv[1:])):
        print(failure)
        sys.exit(1)
