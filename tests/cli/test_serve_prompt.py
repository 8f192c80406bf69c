"""`regroup serve --brokers N`: one line names all addresses, and single brokers are stopped and started by typing."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.emulator import REGROUP, SECONDS, regroup


@pytest.fixture
def three(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    words = [REGROUP, "serve", "--port", "0", "--brokers", "3", "--store", tmp_path / "groups.db"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1) as process:
        yield process
        process.terminate()
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0


def typed(process: subprocess.Popen[str], line: str) -> str:
    """What is said to this line."""
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
        socket.create_connection(address, SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_broker_is_stopped_and_started_by_typing(three: subprocess.Popen[str]) -> None:
    addresses = addresses_of(three)
    assert [listens(each) for each in addresses] == [True, True, True]
    assert typed(three, "stop 1") == "broker 1 stopped"
    assert [listens(each) for each in addresses] == [True, False, True]
    assert typed(three, "start 1") == "broker 1 started"
    assert [listens(each) for each in addresses] == [True, True, True]


def test_a_port_that_was_taken_meanwhile_is_said_and_may_be_tried_again(three: subprocess.Popen[str]) -> None:
    addresses = addresses_of(three)
    typed(three, "stop 1")
    with socket.create_server(addresses[1]):
        assert three.stdin
        three.stdin.write("start 1\n")
        assert three.stderr
        complaint = next(line for line in three.stderr if line.startswith("regroup serve: "))
    assert "broker 1 could not be started" in complaint
    assert typed(three, "start 1") == "broker 1 started"


@pytest.mark.parametrize("line", ["restart 1", "stop", "stop x", "stop 3"])
def test_what_means_nothing_is_answered_with_what_does(three: subprocess.Popen[str], line: str) -> None:
    addresses_of(three)
    assert three.stdin
    assert three.stderr
    three.stdin.write(line + "\n")
    assert three.stderr.readline() == (
        f"regroup serve: {line!r} means nothing here; type stop N or start N, N from 0 to 2.\n"
    )
    assert typed(three, "stop 0") == "broker 0 stopped"


def test_the_end_of_input_ends_nothing(three: subprocess.Popen[str]) -> None:
    addresses = addresses_of(three)
    assert three.stdin
    three.stdin.close()
    assert all(listens(each) for each in addresses)
    three.stdin = None


def test_ports_follow_one_another(tmp_path: Path) -> None:
    done = regroup("serve", "--port", "65534", "--brokers", "3", "--store", str(tmp_path / "groups.db"))
    assert done.returncode == 2
    assert "3 brokers from port 65534 on go past the last port, 65535." in done.stderr
    assert regroup("serve", "--brokers", "0").returncode == 2
