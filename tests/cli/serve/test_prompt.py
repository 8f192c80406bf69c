"""`regroup serve --brokers N`: one line names all addresses, and commands on standard input stop and start brokers."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from regroup.cli.serve import prompt
from regroup.server.faults import text
from tests.cli.conftest import RunCommand
from tests.clients.emulator import REGROUP_COMMAND, TIMEOUT_S


@pytest.fixture
def three(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    words = [REGROUP_COMMAND, "serve", "--port", "0", "--brokers", "3", "--store", tmp_path / "groups.db"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1) as process:
        yield process
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0


def typed(process: subprocess.Popen[str], line: str) -> str:
    """The response to this line."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(line + "\n")
    return process.stdout.readline().strip()


def addresses_of(process: subprocess.Popen[str]) -> list[tuple[str, int]]:
    assert process.stdout
    line = process.stdout.readline().strip()
    assert line.startswith("listening on ")
    pairs = [each.rsplit(":", 1) for each in line.removeprefix("listening on ").split(",")]
    return [(host, int(port)) for host, port in pairs]


def listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
def test_a_broker_is_stopped_and_started(three: subprocess.Popen[str]) -> None:
    addresses = addresses_of(three)
    assert [listens(each) for each in addresses] == [True, True, True]
    assert typed(three, "stop 1") == "broker 1 stopped"
    assert [listens(each) for each in addresses] == [True, False, True]
    assert typed(three, "start 1") == "broker 1 started"
    assert [listens(each) for each in addresses] == [True, True, True]


def test_a_broker_whose_port_was_taken_is_reported_and_can_be_started_later(three: subprocess.Popen[str]) -> None:
    addresses = addresses_of(three)
    typed(three, "stop 1")
    with socket.create_server(addresses[1]):
        assert three.stdin
        three.stdin.write("start 1\n")
        assert three.stderr
        error = next(line for line in three.stderr if line.startswith("regroup serve: "))
    assert "broker 1 could not be started" in error
    assert typed(three, "start 1") == "broker 1 started"


def test_an_unknown_command_is_answered_with_the_known_ones(three: subprocess.Popen[str]) -> None:
    addresses_of(three)
    assert three.stdin
    assert three.stderr
    for line in ("restart 1", "stop", "stop x", "stop 3"):
        three.stdin.write(line + "\n")
        assert three.stderr.readline() == (
            f"regroup serve: unknown command: {line!r}; type stop N or start N (N from 0 to 2), fault FIELD=VALUE …, "
            "faults, release RULE, remove RULE, or help.\n"
        )
    assert typed(three, "stop 0") == "broker 0 stopped"


def test_the_words_of_rules_are_those_of_their_parser() -> None:
    assert prompt.FAULT_WORDS == text.FAULT_WORDS


def test_the_end_of_input_ends_nothing(three: subprocess.Popen[str]) -> None:
    addresses = addresses_of(three)
    assert three.stdin
    three.stdin.close()
    assert all(listens(each) for each in addresses)
    three.stdin = None


def test_brokers_need_consecutive_ports(run_command: RunCommand, tmp_path: Path) -> None:
    code, _, error = run_command("serve", "--port", 65534, "--brokers", 3, "--store", tmp_path / "groups.db")
    assert code == 2
    assert "3 brokers from port 65534 on need ports above 65535." in error
    assert run_command("serve", "--brokers", 0).code == 2
