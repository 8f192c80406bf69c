"""Plays many seeds in several processes, and collects which of them fail, and with which sentences.

    findings = hunt(range(1, 1001), 2, partial(run_seed, draw=draw_plan))
    for sentence, found in findings.by_sentence.items():
        print(sentence, found[0].seed)

Findings are in the order of the seeds, however many processes there are.
"""

import multiprocessing
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from regroup.lab.search.seed_run import Finding

SEEDS_PER_TASK: Final = 8
"""How many seeds a process plays before it returns their results."""
EXIT_NOTHING_FOUND: Final = 0
EXIT_VIOLATION: Final = 1
"""Exit code of a hunt in which an invariant or an expectation does not hold."""
EXIT_NOT_RECOVERED: Final = 3
"""Exit code of a hunt whose only violations are that groups did not recover in time."""

PlaySeed: TypeAlias = Callable[[int], Finding | None]
"""A function that plays the plan of a seed, and returns its finding; None if nothing is violated.

It is pickled for other processes, so it must be a function of a module, or a partial of one.
"""


@dataclass(slots=True)
class Findings:
    """The findings of a hunt, in the order of the seeds."""

    played: int = 0
    """Number of seeds played."""
    found: list[Finding] = field(default_factory=list)
    was_interrupted: bool = False

    @property
    def by_sentence(self) -> dict[str, list[Finding]]:
        """The findings of each sentence, in the order of the sentences' first findings."""
        groups: dict[str, list[Finding]] = {}
        for each in self.found:
            groups.setdefault(each.sentence, []).append(each)
        return groups

    @property
    def exit_code(self) -> int:
        """The exit code for these findings.

        It is `EXIT_VIOLATION` or `EXIT_NOT_RECOVERED`; if nothing was found, `EXIT_NOTHING_FOUND`.
        """
        if not self.found:
            return EXIT_NOTHING_FOUND
        return EXIT_NOT_RECOVERED if all(each.is_recovery_failure for each in self.found) else EXIT_VIOLATION


OnHuntProgress: TypeAlias = Callable[[Findings], None]
"""Called after every seed with the findings so far."""


def hunt(
    seeds: Sequence[int],
    jobs: int,
    play_seed: PlaySeed,
    *,
    stop_at_first: bool = False,
    on_progress: OnHuntProgress = lambda findings: None,
) -> Findings:
    """Play the plans of all seeds, or up to the first that fails; returns what was found.

    Ctrl-C ends the hunt: it then returns the findings so far.
    """
    findings = Findings()
    try:
        with closing(_play_seeds(seeds, jobs, play_seed)) as results:
            for finding in results:
                findings.played += 1
                if finding is not None:
                    findings.found.append(finding)
                on_progress(findings)
                if stop_at_first and findings.found:
                    break
    except KeyboardInterrupt:
        findings.was_interrupted = True
    return findings


def _play_seeds(seeds: Sequence[int], jobs: int, play_seed: PlaySeed) -> Generator[Finding | None, None, None]:
    """Yield the result of each seed, in the order of the seeds. One job runs in this process."""
    if min(jobs, len(seeds)) <= 1:
        yield from map(play_seed, seeds)
        return
    # Spawned, not forked: a process begins without the threads, planted bugs and open files of this one.
    spawn = multiprocessing.get_context("spawn")
    ignore_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)  # this process handles Ctrl-C
    processes = ProcessPoolExecutor(min(jobs, len(seeds)), spawn, initializer=ignore_interrupts)
    try:
        yield from processes.map(play_seed, seeds, chunksize=SEEDS_PER_TASK)
    finally:
        processes.shutdown(cancel_futures=True)
