"""The exchanges that an emulator keeps."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from regroup.protocol.client import ConnectionLost
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupResponse
from regroup.protocol.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from regroup.server.recording.exchange import RecordedExchange
from regroup.server.recording.reading import read_exchanges
from regroup.storage.sqlite.threaded import open_store
from regroup.testing import ActRefused, Emulator
from tests.testing.conftest import ManualMember, stable_pair
from tests.testing.polling import polling

StartEmulator = Callable[..., Emulator]


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator(topics={"orders": 2})


def test_an_exchange_has_its_request_response_sender_and_times(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, clock="manual", settings={"group.initial.rebalance.delay.ms": 500})
    waiting = ManualMember(kafka, "anna").post_join()
    kafka.group("billing").wait_until(lambda seen: seen.members)
    (held,) = kafka.exchanges(api="JoinGroup")
    assert (held.answer, held.response, held.answered_at_ms) == ("no answer", None, None)
    kafka.advance(0.5)
    member_id = waiting.result(10).member_id
    (answered,) = kafka.exchanges(client_id="anna", group="billing")
    assert (answered.api, answered.version, answered.client_id) == ("JoinGroup", 3, "anna")
    assert isinstance(answered.response, JoinGroupResponse)
    assert answered.response.member_id == member_id
    assert answered.answered_at_ms == answered.at_ms + 500
    causes = {(event.cause.connection, event.cause.correlation_id) for event in kafka.group("billing").events()[:1]}
    assert causes == {(answered.connection, answered.correlation_id)}


def test_a_run_of_equal_heartbeats_is_one_row_with_a_count(kafka: Emulator) -> None:
    first, second = stable_pair(kafka)
    for _ in range(5):
        first.heartbeat()
        second.heartbeat()
    kafka.group("billing").expire("second")
    first.heartbeat()
    runs = kafka.exchanges(api="Heartbeat", client_id="first")
    assert [(each.count, each.answer) for each in runs] == [(5, "NONE"), (1, "REBALANCE_IN_PROGRESS")]
    assert runs[0].at_ms <= runs[0].last_at_ms <= runs[1].at_ms
    assert isinstance(runs[0].request, HeartbeatRequest)


def test_heartbeats_of_a_real_client_can_be_counted(kafka: Emulator) -> None:
    with polling("confluent-kafka", kafka.bootstrap_servers, "first"):
        kafka.group("billing").wait_until_stable(members=1)
        with kafka.fault(on="Heartbeat", throttle_ms=1, skip=3) as fourth:
            fourth.wait_hits()
        assert sum(each.count for each in kafka.exchanges(api="Heartbeat")) >= 4


def test_what_a_rule_did_stands_in_the_exchange(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    with kafka.fault(on="Heartbeat", answer=ErrorCode.UNKNOWN_MEMBER_ID, throttle_ms=5):
        first.heartbeat()
    with kafka.fault(on="Heartbeat", drop="request") as rule:
        first.connection.post(HeartbeatRequest(group_id="billing", generation_id=2, member_id=first.member_id), 3)
        rule.wait_hits()
    refused, lost = kafka.exchanges(api="Heartbeat")
    assert (refused.answer, refused.fault) == ("UNKNOWN_MEMBER_ID", "answer, throttle")
    assert (lost.answer, lost.fault) == ("no answer", "drop request")
    assert "fault: drop request" in kafka.group("billing").story()


def test_exchanges_can_be_asserted(kafka: Emulator) -> None:
    stable_pair(kafka)
    kafka.assert_exchanges(["JoinGroup", "SyncGroup: NONE"], client_id="second", group="billing")
    kafka.assert_exchanges([], client_id="nobody")
    with pytest.raises(AssertionError) as caught:
        kafka.assert_exchanges(["JoinGroup", "Heartbeat"], client_id="second", group="billing")
    assert str(caught.value) == (
        "expected JoinGroup, Heartbeat; recorded:\n  JoinGroup v3 of second: NONE\n  SyncGroup v3 of second: NONE"
    )
    for wrong in (["JoinGroup"], ["JoinGroup", "SyncGroup", "Heartbeat"], ["JoinGroup", "SyncGroup: NOT_COORDINATOR"]):
        with pytest.raises(AssertionError):
            kafka.assert_exchanges(wrong, client_id="second", group="billing")


def test_short_records_are_kept_and_long_ones_are_not(kafka: Emulator) -> None:
    for size in (1, 2_000):
        data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=bytes(size))])
        kafka.connect().send(ProduceRequest(acks=1, timeout_ms=1, topic_data=[data]), 9)
    short, long = kafka.exchanges(api="Produce")
    assert isinstance(short.request, ProduceRequest)
    assert long.request is None
    assert long.row.request_bytes > 2_000
    assert short.answer == long.answer == "CORRUPT_MESSAGE"


def test_an_exchange_names_the_events_to_which_it_led(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    first.heartbeat()
    stored = [(event.position, event.cause) for event in kafka.group("billing").events()]
    for exchange in kafka.exchanges(group="billing"):
        expected = [
            position
            for position, cause in stored
            if (cause.connection, cause.correlation_id) == (exchange.connection, exchange.correlation_id)
        ]
        assert [event.position for event in exchange.events] == expected
        assert {event.group for event in exchange.events} <= {"billing"}
    with_request = [position for position, cause in stored if cause.api]
    assert sum(len(exchange.events) for exchange in kafka.exchanges()) == len(with_request)
    assert kafka.exchanges(api="Heartbeat")[0].events == ()


def test_connections_have_other_names_after_a_restart(kafka: Emulator) -> None:
    stable_pair(kafka)
    kafka.kill()
    kafka.restart()
    ManualMember(kafka, "third").post_join()
    kafka.group("billing").wait_until(lambda seen: any(each.client_id == "third" for each in seen.members))
    joins = kafka.exchanges(api="JoinGroup")
    assert len({join.connection for join in joins}) == 3
    events = [event.position for join in joins for event in join.events]
    assert len(events) == len(set(events)) > 3


def test_exchanges_of_a_member_are_found_by_each_of_its_names(kafka: Emulator) -> None:
    member = ManualMember(kafka, "anna", instance_id="billing-1")
    member.join()
    member.heartbeat()
    ManualMember(kafka, "ben", "other").join()
    apis = [exchange.api for exchange in kafka.exchanges(member="anna")]
    assert apis == ["JoinGroup", "Heartbeat"]
    for name in (member.member_id, "billing-1"):
        assert [exchange.api for exchange in kafka.exchanges(member=name)] == apis
    kafka.assert_exchanges(["JoinGroup"], api="JoinGroup", member="billing-1")


def test_a_lost_connection_and_a_refused_request_stand_in_the_exchanges(kafka: Emulator) -> None:
    waiting = ManualMember(kafka, "anna")
    with kafka.hold("JoinGroup") as held:
        waiting.post_join()
        held.wait_hits()
        waiting.connection.close()
        other = kafka.connect("old")
        with pytest.raises(ConnectionLost):
            other.send(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 0)
    (lost,), (refused,) = kafka.exchanges(api="JoinGroup"), kafka.exchanges(api="Produce")
    assert (lost.answer, lost.fault, lost.closed) == ("no answer", "hold", "the connection was lost")
    assert (refused.answer, refused.version) == ("no answer", 0)
    assert "Produce v0 is not served" in refused.closed


def test_a_file_store_has_the_exchanges_of_every_process(emulator: StartEmulator, tmp_path: Path) -> None:
    path = tmp_path / "groups.db"
    kafka = emulator(topics={"orders": 2}, store=path)
    first, _ = stable_pair(kafka)
    for _ in range(3):
        first.heartbeat()
    in_memory = [(exchange.connection, str(exchange), exchange.events) for exchange in kafka.exchanges()]
    kafka.close()

    async def read() -> list[RecordedExchange]:
        async with await open_store(path, read_only=True) as store:
            return await read_exchanges(store)

    stored = asyncio.run(read())
    assert [(exchange.connection, str(exchange), exchange.events) for exchange in stored] == in_memory
    with Emulator(store=path) as again:
        again.connect("anna").send(HeartbeatRequest(group_id="billing", generation_id=2, member_id="x"), 3)
    assert [str(exchange) for exchange in asyncio.run(read())[len(stored) :]] == [
        "Heartbeat v3 of anna: UNKNOWN_MEMBER_ID"
    ]


def test_without_a_recorder_there_are_no_exchanges(emulator: StartEmulator) -> None:
    kafka = emulator(record=False)
    with pytest.raises(ActRefused, match="does not record"):
        kafka.exchanges()
    assert kafka.group("billing").story().endswith("requests are not recorded")
