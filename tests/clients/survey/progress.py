"""The runs that a survey still needs, one after the other, while the program of the next one loads."""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.clients.survey.faults import FAULTS
from tests.clients.survey.outcome import outcome_of
from tests.clients.survey.programs.starting import PROGRAMS, WITHOUT_STATIC_MEMBERS, ClientProgram, Command
from tests.clients.survey.results import WorkFolder
from tests.clients.survey.running import NotHit, run_once

ATTEMPTS = 2
"""Attempts at a run whose fault does not hit."""


class Step(NamedTuple):
    """One run: the client, the fault, and the number of the run."""

    client: str
    fault: str
    number: int


def missing_steps(work: WorkFolder, clients: Iterable[str], faults: Iterable[str], runs: int) -> Iterator[Step]:
    """The runs that the work folder has not: first one of each cell, then a second one, and so on."""
    cells = [(client, fault) for fault in faults for client in clients]
    for number in range(runs):
        for client, fault in cells:
            is_possible = not (FAULTS[fault].is_static and client in WITHOUT_STATIC_MEMBERS)
            if is_possible and not work.has(client, fault, number):
                yield Step(client, fault, number)


class Programs:
    """Starts the client programs; each client is built once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._commands: dict[str, Command] = {}

    def start(self, client: str) -> ClientProgram:
        if client not in self._commands:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._commands[client] = PROGRAMS[client][0](self._folder)
        command, environment = self._commands[client]
        return ClientProgram(command, environment, self._folder / f"{client}.log")


def survey(folder: Path, steps: list[Step]) -> list[Step]:
    """Do these runs; returns those that could not be done. Ctrl-C ends it, and a later call goes on."""
    work, programs, failed = WorkFolder(folder / "runs"), Programs(folder / "programs"), []
    began = time.monotonic()
    spare: tuple[str, ClientProgram] | None = None
    try:
        for index, step in enumerate(steps):
            for _ in range(ATTEMPTS):
                program = spare[1] if spare and spare[0] == step.client else programs.start(step.client)
                following = steps[index + 1].client if index + 1 < len(steps) else None
                spare = (following, programs.start(following)) if following else None
                try:
                    run = run_once(program, step.client, FAULTS[step.fault])
                except (NotHit, RuntimeError) as error:
                    print(f"{step.client} {step.fault}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
                    if spare:
                        spare[1].kill()
                    spare = None
                    continue
                finally:
                    program.kill()
                work.save(run, step.number)
                outcome, left = outcome_of(run), len(steps) - index - 1
                rest_s = (time.monotonic() - began) / (index + 1) * left
                print(
                    f"{index + 1}/{len(steps)}, {rest_s / 60:.0f} min left: {step.client} {step.fault} "
                    f"#{step.number + 1}: {', '.join(outcome.steps)}; {outcome.recovered_ms} ms",
                    flush=True,
                )
                break
            else:
                failed.append(step)
    finally:
        if spare:
            spare[1].kill()
    return failed
