"""The exchanges that an emulator keeps."""

from collections.abc import Callable

import pytest

from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupResponse
from regroup.protocol.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from regroup.server.recording import recorder
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


def test_only_the_latest_exchanges_are_kept(kafka: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MAX_EXCHANGES", 3)
    first, second = stable_pair(kafka)
    first.heartbeat()
    second.heartbeat()
    assert [each.api for each in kafka.exchanges()] == ["SyncGroup", "Heartbeat", "Heartbeat"]


def test_records_are_not_kept(kafka: Emulator) -> None:
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=b"x")])
    kafka.connect().send(ProduceRequest(acks=1, timeout_ms=1, topic_data=[data]), 9)
    (produced,) = kafka.exchanges(api="Produce")
    assert (produced.request, produced.answer) == (None, "CORRUPT_MESSAGE")


def test_without_a_recorder_there_are_no_exchanges(emulator: StartEmulator) -> None:
    kafka = emulator(record=False)
    with pytest.raises(ActRefused, match="does not record"):
        kafka.exchanges()
    assert kafka.group("billing").story().endswith("requests are not recorded")
