"""`regroup serve --brokers N`: one line names all addresses, and commands on standard input stop and start brokers."""

import asyncio
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regroup.cli.serve import prompt
from regroup.server.faults import text
from tests.cli.conftest import RunCommand
from tests.cli.serve.conftest import Served, Start, started, typed
from tests.clients.emulator import TIMEOUT_S


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Three brokers, all of which run before and after each test."""
    with started(tmp_path_factory.mktemp("three"), "--brokers", "3", lines=1) as served:
        yield served


def addresses_of(served: Served) -> list[tuple[str, int]]:
    pairs = [each.rsplit(":", 1) for each in served.servers.split(",")]
    return [(host, int(port)) for host, port in pairs]


def refusal(served: Served, line: str) -> str:
    """What is said of this line on standard error, where the log is, too."""
    assert served.process.stdin
    assert served.process.stderr
    served.process.stdin.write(line + "\n")
    served.process.stdin.flush()
    return next(said for said in served.process.stderr if said.startswith("regroup serve: "))


def listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
def test_a_broker_is_stopped_and_started(three: Served) -> None:
    addresses = addresses_of(three)
    assert [listens(each) for each in addresses] == [True, True, True]
    assert typed(three, "stop 1") == "broker 1 stopped"
    assert [listens(each) for each in addresses] == [True, False, True]
    assert typed(three, "start 1") == "broker 1 started"
    assert [listens(each) for each in addresses] == [True, True, True]


def test_a_broker_whose_port_was_taken_is_reported_and_can_be_started_later(three: Served) -> None:
    addresses = addresses_of(three)
    typed(three, "stop 1")
    with socket.create_server(addresses[1]):
        assert "broker 1 could not be started" in refusal(three, "start 1")
    assert typed(three, "start 1") == "broker 1 started"


def test_an_unknown_command_is_answered_with_the_known_ones(three: Served) -> None:
    for line in ("restart 1", "stop", "stop x", "stop 3"):
        assert refusal(three, line) == (
            f"regroup serve: unknown command: {line!r}; type stop N or start N (N from 0 to 2), fault FIELD=VALUE …, "
            "faults, release RULE, remove RULE, or help.\n"
        )
    assert typed(three, "stop 0") == "broker 0 stopped"
    assert typed(three, "start 0") == "broker 0 started"


def test_the_words_of_rules_are_those_of_their_parser() -> None:
    assert prompt.FAULT_WORDS == text.FAULT_WORDS


@pytest.mark.slow
def test_the_end_of_input_ends_nothing(start: Start) -> None:
    with start("--brokers", "3", lines=1) as served:
        assert served.process.stdin
        served.process.stdin.close()
        assert all(listens(each) for each in addresses_of(served))
        served.process.stdin = None


def test_a_last_line_without_a_newline_is_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_all() -> int:
        stopped: asyncio.Queue[int] = asyncio.Queue()
        brokers: Any = SimpleNamespace(stop_broker=stopped.put, start_broker=None)
        opened = prompt.ServePrompt(brokers, 2)
        opened.open()
        async with asyncio.timeout(TIMEOUT_S):
            number = await stopped.get()
        opened.close()
        return number

    reading, writing = os.pipe()
    monkeypatch.setattr(prompt, "STDIN_FD", reading)
    os.write(writing, b"stop 1")
    os.close(writing)
    assert asyncio.run(read_all()) == 1
    os.close(reading)


def test_a_part_of_a_line_before_an_error_of_the_input_is_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = asyncio.Event()
    pieces = iter([b"stop 0\nstop 1"])

    def read(_file: int, _size: int) -> bytes:
        for piece in pieces:
            return piece
        failed.set()
        raise OSError(errno.EIO, "Input/output error")

    async def read_until_it_fails() -> list[int]:
        stopped: list[int] = []

        async def stop(number: int) -> None:
            stopped.append(number)

        brokers: Any = SimpleNamespace(stop_broker=stop, start_broker=None)
        opened = prompt.ServePrompt(brokers, 2)
        opened.open()
        async with asyncio.timeout(TIMEOUT_S):
            await failed.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        opened.close()
        return stopped

    reading, writing = os.pipe()
    os.write(writing, b"readable")
    monkeypatch.setattr(prompt, "STDIN_FD", reading)
    monkeypatch.setattr(prompt.os, "read", read)
    assert asyncio.run(read_until_it_fails()) == [0]
    os.close(reading)
    os.close(writing)


def test_brokers_need_consecutive_ports(run_command: RunCommand, tmp_path: Path) -> None:
    code, _, error = run_command("serve", "--port", 65534, "--brokers", 3, "--store", tmp_path / "groups.db")
    assert code == 2
    assert "3 brokers from port 65534 on need ports above 65535." in error
    assert run_command("serve", "--brokers", 0).code == 2
