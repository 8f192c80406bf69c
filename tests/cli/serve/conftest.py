"""A `regroup serve` as a process, and the ports that its first lines name."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.clients.emulator import REGROUP_COMMAND, TIMEOUT_S
from tests.control.conftest import Control


class Served:
    """A `regroup serve` with its first lines."""

    def __init__(self, process: subprocess.Popen[str], lines: int) -> None:
        assert process.stdout
        self.process = process
        self.lines = [process.stdout.readline().rstrip("\n") for _ in range(lines)]

    @property
    def servers(self) -> str:
        return self.lines[0].removeprefix("listening on ")

    @property
    def control(self) -> Control:
        return self._port("control")

    @property
    def page(self) -> Control:
        return self._port("page")

    def _port(self, name: str) -> Control:
        (line,) = [each for each in self.lines if each.startswith(f"{name} on http://")]
        host, _, port = line.removeprefix(f"{name} on http://").rpartition(":")
        return Control(host, int(port))


def typed(served: Served, line: str) -> str:
    """The response to this line."""
    assert served.process.stdin
    assert served.process.stdout
    served.process.stdin.write(line + "\n")
    served.process.stdin.flush()
    return served.process.stdout.readline().strip()


Start = Callable[..., Any]


@contextmanager
def started(folder: Path, *words: str, lines: int = 2, **environment: str) -> Iterator[Served]:
    """A `regroup serve` with these words until the end of the block, whose store is in `folder`."""
    command = [REGROUP_COMMAND, "serve", "--port", "0", "--store", folder / "groups.db", *words]
    pipe = subprocess.PIPE
    env = os.environ | environment
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env) as process:
        yield Served(process, lines)
        if process.poll() is None:
            process.terminate()
            _, errors = process.communicate(timeout=TIMEOUT_S)
            assert (process.returncode, "Traceback" in errors) == (0, False), errors


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """`start("--brokers", "3")` is such an emulator, in the folder of the test."""
    return partial(started, tmp_path)
