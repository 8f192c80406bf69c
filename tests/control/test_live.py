"""The stream of a group's progress: what it says, how often, and how it ends."""

import socket
from contextlib import ExitStack

import pytest

from regroup.control.endpoints import live
from regroup.control.web import application, streams
from regroup.testing import Emulator
from tests.control.conftest import TIMEOUT_S, Control, Port, StartControl
from tests.control.test_simulated import until
from tests.testing.conftest import ManualMember, stable_pair


def test_a_stream_says_how_far_a_group_has_come(kafka: Emulator, control: Control) -> None:
    with control.stream("/group/follow", group="billing") as stream:
        assert stream.media_type == "text/event-stream; charset=utf-8"
        assert stream.next() == {"group": "billing", "position": 0, "member_changes": 0, "running": True}
        stable_pair(kafka)
        last = kafka.group("billing").events()[-1].position
        while (said := stream.next())["position"] < last:
            pass
        assert said["position"] == last
        kafka.add_partitions("orders", 3)
        assert stream.next()["position"] == kafka.position() > last


def test_the_progress_of_another_group_is_no_message(kafka: Emulator, control: Control) -> None:
    with control.stream("/group/follow", group="shipping") as stream:
        stream.next()
        stable_pair(kafka)
        member = ManualMember(kafka, "other", "shipping")
        member.join()
        assert stream.next()["position"] in {each.position for each in kafka.group("shipping").events()}


def test_changes_close_together_are_one_message(
    kafka: Emulator, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MIN_INTERVAL_S", 0.3)
    with control.stream("/group/follow", group="billing") as stream:
        stream.next()
        stable_pair(kafka)
        last = kafka.position()
        count = 1
        while stream.next()["position"] < last:
            count += 1
        assert count <= 3


def test_a_killed_process_is_said_and_its_restart(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    last = kafka.position()
    with control.stream("/group/follow", group="billing") as stream:
        assert stream.next()["running"]
        control.act("/emulator/kill")
        said = stream.next()
        assert (said["running"], said["position"]) == (False, last)
        control.act("/emulator/restart")
        said = stream.next()
        assert (said["running"], said["position"] > last) == (True, True)


def test_a_stream_ends_when_the_server_stops(kafka: Emulator) -> None:
    port = Port(kafka)
    with port.control.stream("/group/follow", group="billing") as stream:
        stream.next()
        port.close()
        assert stream.next() is None


def test_a_client_that_goes_ends_its_stream(control: Control) -> None:
    with control.stream("/group/follow", group="billing") as stream:
        stream.next()
        assert control.look("/emulator")["waiting_requests"] == 1
    until(lambda: control.look("/emulator")["waiting_requests"] == 0)


def test_the_number_of_streams_is_bounded(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "MAX_WAITS", 2)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(control.stream("/group/follow", group="billing")).next()
        assert control.get("/group/follow", group="billing").status == 429
    until(lambda: control.get("/group/wait", group="billing", timeout_s=0).status == 409)


def test_a_silent_stream_sends_lines_that_say_nothing(
    start_control: StartControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.05)
    control = start_control()
    with socket.create_connection((control.host, control.port), TIMEOUT_S) as connection:
        connection.sendall(b"GET /group/follow?group=billing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read = b""
        while read.count(b":\n\n") < 3:
            read += connection.recv(4096)


def test_a_foreign_page_cannot_read_a_stream(control: Control) -> None:
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert control.get("/group/follow", headers, group="billing").status == 403
