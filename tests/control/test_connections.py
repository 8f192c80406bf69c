"""Half-sent requests, slow bodies and unread responses do not keep the control port from others."""

import socket
import time
from contextlib import ExitStack, closing

import pytest

from regroup.control.web import application, connections
from regroup.testing import Emulator
from tests.control.conftest import TIMEOUT_S, Control, StartControl

HALF = b"GET /groups HTTP/1.1\r\nHost: localhost\r\n"


def opened(control: Control, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection((control.host, control.port), TIMEOUT_S)
    connection.sendall(sent)
    return connection


def ends_within_timeout(connection: socket.socket) -> bool:
    """Whether the other side closes the connection before this side's timeout, without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_half_sent_requests_make_room_for_others(start_control: StartControl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 20)
    control = start_control()
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(closing(opened(control, HALF)))
        assert [control.get("/groups").status for _ in range(30)] == [200] * 30


def test_idle_connections_make_room_for_others(start_control: StartControl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 20)
    control = start_control()
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(closing(opened(control)))
        assert control.get("/groups").status == 200


def test_a_wait_makes_no_room(start_control: StartControl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    control = start_control()
    waiting = control.in_background("/group/wait-stable", group="billing", timeout_s=1)
    while control.look("/emulator")["waiting_requests"] == 0:
        time.sleep(0.01)
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(closing(opened(control, HALF)))
        assert waiting.result().status == 409


@pytest.mark.parametrize("sent", [b"", b"GET", HALF])
def test_a_head_that_does_not_come_ends_its_connection(
    control: Control, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.05)
    with closing(opened(control, sent)) as connection:
        assert ends_within_timeout(connection)


def test_a_head_that_trickles_ends_its_connection(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that come one by one do not start the time again."""
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.2)
    with closing(opened(control)) as connection:
        connection.settimeout(0.02)
        end_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end_s:
            try:
                connection.send(b"G")
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() < end_s


def test_a_second_head_that_does_not_come_ends_its_connection(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.1)
    with closing(opened(control, HALF + b"\r\n")) as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(HALF)
        while connection.recv(65_536):
            pass


def test_a_body_that_does_not_come_is_refused(
    kafka: Emulator, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "BODY_TIMEOUT_S", 0.05)
    head = b"POST /topic/create HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with closing(opened(control, head + b'Content-Length: 99\r\n\r\n{"topic": "made"')) as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 408 ")
    assert "made" not in kafka.topics()


def test_an_unread_response_ends_its_connection(
    kafka: Emulator, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "READ_TIMEOUT_S", 0.1)
    for _ in range(20):
        kafka.produce("orders", "x" * 900_000)
    with closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(TIMEOUT_S)
        connection.connect((control.host, control.port))
        connection.sendall(b"GET /topic/records?topic=orders HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.5)  # the response stays unread for longer than is allowed
        read = 0
        try:
            while piece := connection.recv(65_536):
                read += len(piece)
        except ConnectionResetError:
            pass
        assert read < 18_000_000
