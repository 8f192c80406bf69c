"""The process, brokers, coordinators, clients, topics and records over HTTP."""

import base64
import json
import socket

import pytest

from regroup.control.endpoints import topics
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.testing import Emulator
from tests.control.conftest import Control, StartControl
from tests.testing.conftest import ManualMember, stable_pair


def listens(kafka: Emulator, broker: int) -> bool:
    host, _, port = kafka.bootstrap_servers.split(",")[broker].rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_the_process_is_shown(kafka: Emulator, control: Control) -> None:
    shown = control.look("/emulator")
    assert (shown["running"], shown["brokers"], shown["clock"]) == (True, 2, "real")
    assert shown["bootstrap_servers"] == kafka.bootstrap_servers
    assert shown["position"] == kafka.position()
    assert shown["started_at_ms"] <= shown["now_ms"]


def test_the_answers_are_json_in_one_line(control: Control) -> None:
    body = control.get("/emulator").body
    assert (body.count(b"\n"), body[-1:], json.loads(body)["running"]) == (1, b"\n", True)


def test_a_killed_process_comes_back_at_the_same_addresses(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    control.act("/emulator/kill")
    assert (listens(kafka, 0), control.look("/emulator")["running"]) == (False, False)
    answer = control.get("/groups")
    assert (answer.status, "POST /emulator/restart" in answer.error) == (503, True)
    assert control.post("/emulator/kill").status == 503
    assert control.look("/faults") == []
    control.act("/emulator/restart")
    assert (listens(kafka, 0), control.look("/groups")[0]["state"]) == (True, "Stable")
    assert control.post("/emulator/restart").status == 409


def test_a_wait_ends_when_the_process_is_killed(kafka: Emulator, control: Control) -> None:
    waiting = control.in_background("/group/wait-stable", group="billing", timeout_s=20)
    control.act("/emulator/kill")
    assert waiting.result().status == 503


def test_a_broker_stops_and_starts(kafka: Emulator, control: Control) -> None:
    control.act("/broker/stop", broker=1)
    assert [each["running"] for each in control.look("/brokers")] == [True, False]
    assert not listens(kafka, 1)
    control.act("/broker/start", broker=1)
    assert [each["running"] for each in control.look("/brokers")] == [True, True]


def test_a_broker_whose_port_is_taken_does_not_start(kafka: Emulator, control: Control) -> None:
    control.act("/broker/stop", broker=1)
    port = control.look("/brokers")[1]["port"]
    with socket.create_server(("127.0.0.1", port)):
        assert control.post("/broker/start", broker=1).status == 409


def test_a_broker_is_slow_until_the_delay_ends(kafka: Emulator, control: Control) -> None:
    control.act("/broker/slow", broker=0, delay_s=3600)
    assert control.look("/brokers")[0]["delay_s"] == 3600
    with kafka.connect(broker=0) as connection:
        waiting = connection.post(ApiVersionsRequest(), 0)
        control.act("/broker/slow", broker=0, delay_s=0)
        with kafka.connect(broker=0) as other:
            assert other.send(ApiVersionsRequest(), 0).error_code == 0
        assert not waiting.done()


def test_a_coordinator_moves(kafka: Emulator, control: Control) -> None:
    before = control.look("/coordinator", group="billing")["broker"]
    assert control.act("/coordinator/move", group="billing") == {"group": "billing", "broker": 1 - before}
    assert control.act("/coordinator/move", group="billing", broker=before)["broker"] == before
    control.act("/broker/stop", broker=1 - before)
    answer = control.post("/coordinator/move", group="billing")
    assert (answer.status, answer.error.startswith("a coordinator moves to another broker")) == (409, True)


def test_a_coordinator_loads_until_it_is_ended(kafka: Emulator, control: Control) -> None:
    first, _ = stable_pair(kafka)
    control.act("/coordinator/begin-loading", group="billing")
    member = ManualMember(kafka, "third")
    assert member.post_join().result(10).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    control.act("/coordinator/finish-loading", group="billing")
    assert first.heartbeat() == 0


def test_a_crashed_client_gets_no_answers_until_it_is_revived(kafka: Emulator, control: Control) -> None:
    stable_pair(kafka)
    control.act("/client/crash", client="second")
    assert control.look("/emulator")["crashed_clients"] == ["second"]
    assert len(control.look("/group", group="billing")["members"]) == 1
    with kafka.connect("second") as connection:
        waiting = connection.post(ApiVersionsRequest(), 0)
        control.act("/client/revive", client="second")
        assert waiting.result(10).error_code == 0
    assert control.post("/client/crash", client="unknown").status == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/broker/stop", {"broker": 2}),
        ("/broker/slow", {"broker": 7, "delay_s": 1}),
        ("/broker/slow", {"broker": 0, "delay_s": -1}),
        ("/broker/slow", {"broker": 0, "delay_s": 1e9}),
        ("/broker/stop", {"broker": -1}),
        ("/broker/stop", {"broker": "0"}),
        ("/broker/stop", {}),
        ("/broker/stop", {"broker": 0, "force": True}),
    ],
)
def test_what_no_broker_can_do_is_invalid(control: Control, path: str, body: dict[str, object]) -> None:
    assert control.post(path, **body).status == 422


def test_topics_are_made_grown_and_deleted(kafka: Emulator, control: Control) -> None:
    assert control.act("/topic/create", topic="payments", partitions=3) == {"topic": "payments", "partitions": 3}
    assert control.post("/topic/create", topic="payments").status == 409
    assert control.act("/topic/add-partitions", topic="payments", partitions=5)["partitions"] == 5
    assert control.post("/topic/add-partitions", topic="payments", partitions=5).status == 409
    assert control.look("/topics") == [{"topic": "orders", "partitions": 2}, {"topic": "payments", "partitions": 5}]
    control.act("/topic/delete", topic="payments")
    assert control.post("/topic/delete", topic="payments").status == 404
    assert control.post("/topic/create", topic="a/b").status == 409
    assert control.post("/topic/create", topic="big", partitions=10_001).status == 422


def test_records_are_text_or_bytes(control: Control) -> None:
    made = control.act("/topic/produce", topic="orders", value="one pear", key="pears")
    assert (made["offset"], made["value"], made["key"]) == (0, "one pear", "pears")
    raw = base64.b64encode(b"\xff\x00").decode()
    control.act(
        "/topic/produce", topic="orders", value_base64=raw, headers=[{"name": "h", "value_base64": raw}], partition=1
    )
    first, second = control.look("/topic/records", topic="orders")
    assert (first["value"], second["value"], second["value_base64"]) == ("one pear", None, raw)
    assert second["headers"] == [{"name": "h", "value_base64": raw}]
    assert control.act("/topic/produce", topic="orders")["value_base64"] is None


def test_records_are_read_from_an_offset_on_and_bounded(control: Control) -> None:
    for number in range(5):
        control.act("/topic/produce", topic="orders", value=str(number))
    read = control.look("/topic/records", topic="orders", partition=0, offset=2, limit=2)
    assert [each["value"] for each in read] == ["2", "3"]
    assert control.look("/topic/records", topic="orders", partition=0, offset=99) == []
    assert control.get("/topic/records", topic="orders", partition=7).status == 404
    assert control.get("/topic/records", topic="other").status == 404


def test_a_record_that_is_both_text_and_bytes_is_invalid(control: Control) -> None:
    answer = control.post("/topic/produce", topic="orders", value="x", value_base64="eA==")
    assert (answer.status, "not both" in answer.error) == (422, True)
    assert control.post("/topic/produce", topic="orders", value_base64="not base64!").status == 422
    assert control.post("/topic/produce", topic="orders", partition=9, value="x").status == 404


def test_a_name_is_given_out_once(control: Control) -> None:
    names = {control.act("/unique-name", name="orders")["name"] for _ in range(3)}
    assert len(names) == 3


def test_several_ports_may_serve_one_emulator(start_control: StartControl) -> None:
    one, other = start_control(), start_control()
    one.act("/topic/create", topic="payments")
    assert {each["topic"] for each in other.look("/topics")} == {"orders", "payments"}


def test_a_list_of_records_ends_when_it_is_too_long(
    kafka: Emulator, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MAX_RECORDS_BYTES", 15)
    for number in range(3):
        kafka.produce("orders", "ten bytes!", key=str(number), partition=0)
    assert [each["key"] for each in control.look("/topic/records", topic="orders")] == ["0", "1"]
    assert [each["key"] for each in control.look("/topic/records", topic="orders", offset=2)] == ["2"]
