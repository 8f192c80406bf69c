"""Many seeds, over many processes: which of them fail, and with which sentences.

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

BATCH_SIZE: Final = 8
"""Seeds that a process plays before it reports."""
EXIT_NOTHING_FOUND: Final = 0
EXIT_VIOLATION: Final = 1
"""An invariant or an expectation does not hold."""
EXIT_NOT_RECOVERED: Final = 3
"""Nothing else is violated than that groups did not recover in time."""

PlaySeed: TypeAlias = Callable[[int], Finding | None]
"""Plays a seed. It is sent to other processes, so it is a module's function or a partial of one."""


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
        """The exit code of a command that has found this."""
        if not self.found:
            return EXIT_NOTHING_FOUND
        return EXIT_NOT_RECOVERED if all(each.is_recovery_failure for each in self.found) else EXIT_VIOLATION


OnHuntProgress: TypeAlias = Callable[[Findings], None]
"""Called after every batch."""


def hunt(
    seeds: Sequence[int],
    jobs: int,
    play_seed: PlaySeed,
    *,
    stop_at_first: bool = False,
    on_progress: OnHuntProgress = lambda findings: None,
) -> Findings:
    """Play all seeds, or up to the first that fails. Ctrl-C ends it with what was found so far."""
    findings = Findings()
    batches = [seeds[start : start + BATCH_SIZE] for start in range(0, len(seeds), BATCH_SIZE)]
    try:
        with closing(_play_batches(batches, min(jobs, len(batches)), play_seed)) as played:
            for results in played:
                if _add_results(findings, results, stop_at_first):
                    break
                on_progress(findings)
    except KeyboardInterrupt:
        findings.was_interrupted = True
    return findings


def _add_results(findings: Findings, results: Sequence[Finding | None], stop_at_first: bool) -> bool:
    """Whether the hunt can stop."""
    for result in results:
        findings.played += 1
        if result is not None:
            findings.found.append(result)
            if stop_at_first:
                return True
    return False


def _play_batches(
    batches: Sequence[Sequence[int]], jobs: int, play_seed: PlaySeed
) -> Generator[list[Finding | None], None, None]:
    """The results of the batches, in order. One job needs no other process."""
    play_batch = partial(_play_batch, play_seed=play_seed)
    if jobs <= 1:
        yield from map(play_batch, batches)
        return
    # Spawned, not forked: a process begins without the threads, planted bugs and open files of this one.
    spawn = multiprocessing.get_context("spawn")
    ignore_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)  # this process handles Ctrl-C
    processes = ProcessPoolExecutor(jobs, spawn, initializer=ignore_interrupts)
    try:
        yield from processes.map(play_batch, batches)
    finally:
        processes.shutdown(cancel_futures=True)


def _play_batch(batch: Sequence[int], play_seed: PlaySeed) -> list[Finding | None]:
    return [play_seed(seed) for seed in batch]
