"""Many seeds, over many processes: which of them fail, and of what.

    findings = hunt(range(1, 1001), 2, partial(try_seed, draw=draw))
    for sentence, found in findings.by_sentence.items():
        print(sentence, found[0].seed)

The order of seeds is that in which they were handed in, and so is that of what was found, however many processes there
are.
"""

import multiprocessing
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from regroup.lab.search.trial import Finding

BATCH: Final = 8
"""Seeds that a process plays before it reports."""
NOTHING_FOUND: Final = 0
BROKEN: Final = 1
"""An invariant or an expectation does not hold."""
NOT_HEALED: Final = 3
"""Nothing else is broken, but groups were not well again within their bound."""

Play: TypeAlias = Callable[[int], Finding | None]
"""Plays a seed; None if nothing is found. It travels to other processes: a function of a module, or a partial of it."""


@dataclass(slots=True)
class Findings:
    """`played` seeds, and what was found, in the order of the seeds."""

    played: int = 0
    found: list[Finding] = field(default_factory=list)
    was_interrupted: bool = False

    @property
    def by_sentence(self) -> dict[str, list[Finding]]:
        """What was found first comes first."""
        groups: dict[str, list[Finding]] = {}
        for each in self.found:
            groups.setdefault(each.sentence, []).append(each)
        return groups

    @property
    def exit_code(self) -> int:
        if not self.found:
            return NOTHING_FOUND
        return NOT_HEALED if all(each.is_unrest for each in self.found) else BROKEN


Progress: TypeAlias = Callable[[Findings], None]
"""Told after every batch."""


def hunt(
    seeds: Sequence[int],
    jobs: int,
    play: Play,
    *,
    stop_at_first: bool = False,
    progress: Progress = lambda findings: None,
) -> Findings:
    """Play all seeds, or up to the first that fails. Ctrl-C ends it early, with what was found so far."""
    findings = Findings()
    batches = [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]
    try:
        with closing(_played(batches, min(jobs, len(batches)), play)) as played:
            for results in played:
                if _note(findings, results, stop_at_first):
                    break
                progress(findings)
    except KeyboardInterrupt:
        findings.was_interrupted = True
    return findings


def _note(findings: Findings, results: Sequence[Finding | None], stop_at_first: bool) -> bool:
    """Whether that is enough."""
    for result in results:
        findings.played += 1
        if result is not None:
            findings.found.append(result)
            if stop_at_first:
                return True
    return False


def _played(batches: Sequence[Sequence[int]], jobs: int, play: Play) -> Generator[list[Finding | None], None, None]:
    """In order. A single job needs no other process."""
    play_batch = partial(_play_batch, play=play)
    if jobs <= 1:
        yield from map(play_batch, batches)
        return
    # Spawned, not forked: a process begins without the threads, bugs and half-read files of this one.
    spawned = multiprocessing.get_context("spawn")
    processes = ProcessPoolExecutor(jobs, spawned, initializer=_leave_interrupts_to_the_parent)
    try:
        yield from processes.map(play_batch, batches)
    finally:
        processes.shutdown(cancel_futures=True)


def _play_batch(batch: Sequence[int], play: Play) -> list[Finding | None]:
    return [play(seed) for seed in batch]


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
