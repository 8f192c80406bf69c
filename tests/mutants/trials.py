"""Trials of many mutants in several processes, each with its own copy of the project."""

import multiprocessing
import signal
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from tests.mutants.judges import JUDGES, Verdict
from tests.mutants.project_copy import ProjectCopy
from tests.mutants.results import Trial
from tests.mutants.sites import Mutation


class MissingTrial(NamedTuple):
    """A mutant that a judge has not seen."""

    mutation: Mutation
    judge: str
    seeds: list[int]
    """The seeds that the lab plays: those that execute the mutant."""


@cache
def copy_of_process(folder: Path) -> ProjectCopy:
    """The copy of the project that belongs to this process."""
    return ProjectCopy(folder / str(multiprocessing.current_process().pid))


def make_trial(folder: Path, missing: MissingTrial) -> Trial:
    """Show one mutant to one judge, in the copy of this process.

    The conformance stories ask a server, which imports nothing of `members/`: its mutants survive them without a trial.
    """
    if missing.judge == "stories" and missing.mutation.path.startswith("members/"):
        return Trial(missing.mutation.key, missing.judge, missing.mutation, Verdict("survived", "", 0.0), 0)
    copy = copy_of_process(folder)
    with copy.mutated(missing.mutation):
        verdict = JUDGES[missing.judge](copy, missing.seeds)
    return Trial(missing.mutation.key, missing.judge, missing.mutation, verdict, len(missing.seeds))


def make_trials(missing: list[MissingTrial], jobs: int) -> Iterator[Trial]:
    """Make the trials, and yield each as it ends."""
    ignore_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the first process handles Ctrl-C
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        multiprocessing.get_context("spawn").Pool(jobs, ignore_interrupts) as pool,
    ):
        yield from pool.imap_unordered(partial(make_trial, Path(folder)), missing)
