"""What a mutant is shown to: the lab, the conformance stories, the unit tests. Each is a process that fails or not."""

import json
import re
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired, run
from tempfile import NamedTemporaryFile
from typing import Final, Literal, TypeAlias

from tests.mutants.project_copy import ROOT, ProjectCopy

Outcome: TypeAlias = Literal["killed", "survived", "out of time"]

FIRST_SEED: Final = 9_500_000
"""The first seed that a mutant is played with: far from those with which the lab was made. The seeds from 9,000,000 to
9,469,999 were played before, and what they showed led to new rules and new situations."""
SEEDS: Final = 200
LAB_CPU_S: Final = 120
TESTS_CPU_S: Final = 240
STORIES_S: Final = 180
WALL_S: Final = 1_200
WAITING_SHARE: Final = 0.01
"""A process that after this time has used less than this share of it waits for ever; others had too little of a busy
machine."""
MEMORY_BYTES: Final = 6 << 30
TESTS: Final = ("tests/coordinator", "tests/members")
STORY_SETTINGS: Final = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100")


@dataclass(frozen=True)
class Verdict:
    """What a judge found out about a mutant."""

    outcome: Outcome
    by: str
    """The test, the behaviour or the violation that shows the mutant; empty if none does."""
    cpu_s: float


def judge_by_lab(copy: ProjectCopy, seeds: Sequence[int]) -> Verdict:
    """Play the seeds that execute the mutant, or as many of them as 120 seconds of CPU time allow."""
    if not seeds:
        return Verdict("survived", "", 0.0)
    command = [sys.executable, "-m", "tests.mutants.play_seeds", *map(str, seeds)]
    return _run_process(copy, command, LAB_CPU_S, _last_line)


def judge_by_tests(copy: ProjectCopy, seeds: Sequence[int]) -> Verdict:
    """Run the quick tests of the coordinator and of the members, up to the first that fails."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *TESTS,
    ]
    return _run_process(copy, command, TESTS_CPU_S, _failed_test)


def judge_by_stories(copy: ProjectCopy, seeds: Sequence[int]) -> Verdict:
    """Serve with the mutant, and ask it every story of less than a minute; the unmutated project asks.

    A story that fails is asked again by itself, since on a busy machine one may fail by its timing alone.
    """
    settings = [word for each in STORY_SETTINGS for word in ("--set", each)]
    store = copy.folder / "stories.db"
    store.unlink(missing_ok=True)
    serve = [sys.executable, "-m", "regroup", "serve", "--port", "0", "--store", str(store), "--log-level", "error"]
    before_s = _cpu_of_children_s()
    with Popen(
        [*serve, *settings], cwd=copy.folder, env=copy.environment, stdout=PIPE, stderr=DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout
            listening = re.search(r"listening on (\S+)", server.stdout.readline())
            if listening is None:
                failed = ["regroup serve does not start"]
            else:
                failed = _failing_stories(listening[1], [])
                failed = failed and _failing_stories(listening[1], failed)
        finally:
            server.kill()
    return Verdict("killed" if failed else "survived", failed[0] if failed else "", _cpu_of_children_s() - before_s)


def _failing_stories(address: str, cases: list[str]) -> list[str]:
    """The behaviours that fail, in the order of the report; of `cases` alone if any are given."""
    command = [sys.executable, "-m", "regroup", "conformance", "--bootstrap", address, "--longest", "60"]
    command += ["--case", ",".join(cases)] if cases else []
    with NamedTemporaryFile() as file:
        try:
            run(
                [*command, "--json", file.name],
                cwd=ROOT,
                stdout=DEVNULL,
                stderr=DEVNULL,
                timeout=STORIES_S,
                check=False,
            )
            report = json.loads(Path(file.name).read_bytes())
        except TimeoutExpired:
            return ["the stories do not end"]
        except json.JSONDecodeError:
            return ["the stories end with an error"]
    return [each["behaviour"] for each in report["verdicts"] if each["outcome"] == "fail"]


JUDGES: Final[dict[str, Callable[[ProjectCopy, Sequence[int]], Verdict]]] = {
    "lab": judge_by_lab,
    "stories": judge_by_stories,
    "tests": judge_by_tests,
}
"""The judges by their names. Each gets a copy of the project, and the seeds that the lab plays."""


def _cpu_of_children_s() -> float:
    """CPU time of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run_process(copy: ProjectCopy, command: list[str], cpu_s: int, reason: Callable[[str], str]) -> Verdict:
    """Run a judge's process with a limit of CPU time and memory; `reason` finds in what it prints why it fails."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    before_s = _cpu_of_children_s()
    try:
        done = run(
            command,
            cwd=copy.folder,
            env=copy.environment,
            preexec_fn=limit,
            capture_output=True,
            text=True,
            timeout=WALL_S,
            check=False,
        )
    except TimeoutExpired:
        used_s = _cpu_of_children_s() - before_s
        if used_s < WAITING_SHARE * WALL_S:
            return Verdict("killed", "the process waits for ever", used_s)
        return Verdict("out of time", "", used_s)
    used_s = _cpu_of_children_s() - before_s
    if done.returncode == 0:
        return Verdict("survived", "", used_s)
    if done.returncode == -signal.SIGXCPU:
        return Verdict("out of time", "", used_s)
    return Verdict("killed", reason(done.stdout + done.stderr), used_s)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:300]


def _failed_test(text: str) -> str:
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
    return named[1] if named else _last_line(text)
