"""Fault rules: which requests they hit, and what happens to them."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from regroup.protocol.client import ConnectionLost
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from regroup.protocol.messages.group import (
    LeaveGroupRequest,
    MemberIdentity,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.protocol.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from regroup.testing import Emulator, InvalidFault
from tests.testing.conftest import ManualMember, stable_pair

StartEmulator = Callable[..., Emulator]
COMMIT = OffsetCommitRequest(
    group_id="offline",
    topics=[
        OffsetCommitRequestTopic(
            name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
        )
    ],
)


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator(topics={"orders": 2})


def commit_code(connection) -> int:
    return connection.send(COMMIT, 7).topics[0].partitions[0].error_code


# What happens


def test_an_answered_request_is_not_applied(kafka: Emulator) -> None:
    rule = kafka.fault(on="OffsetCommit", answer=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=2)
    connection = kafka.connect()
    assert [commit_code(connection) for _ in range(2)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert kafka.groups() == []
    assert commit_code(connection) == ErrorCode.NONE
    assert rule.hits == 2


def test_a_dropped_request_is_not_applied_and_a_dropped_answer_is(kafka: Emulator) -> None:
    for drop, groups in (("request", []), ("answer", ["offline"])):
        with kafka.fault(on="OffsetCommit", drop=drop) as rule:
            waiting = kafka.connect().post(COMMIT, 7)
            rule.wait_hits()
            kafka.connect().send(ApiVersionsRequest(), 0)
            assert (kafka.groups(), waiting.done()) == (groups, False)


def test_a_connection_is_closed_before_or_after_the_request_is_applied(kafka: Emulator) -> None:
    for close, groups in (("before", []), ("after", ["offline"])):
        with kafka.fault(on="OffsetCommit", close=close), pytest.raises(ConnectionLost):
            kafka.connect().send(COMMIT, 7)
        assert kafka.groups() == groups


def test_a_repeated_request_is_applied_twice_and_answered_once(kafka: Emulator) -> None:
    connection = kafka.connect()
    with kafka.fault(on="OffsetCommit", repeat=True):
        assert commit_code(connection) == ErrorCode.NONE
    assert [event.type for event in kafka.group("offline").events()].count("offsets-committed") == 2
    assert connection.send(ApiVersionsRequest(), 0).error_code == 0


def test_a_throttled_answer_says_so(kafka: Emulator) -> None:
    with kafka.fault(on="OffsetCommit", throttle_ms=250):
        assert kafka.connect().send(COMMIT, 7).throttle_time_ms == 250


@pytest.mark.parametrize("effect", ["delay_s", "answer_delay_s"])
def test_delays_run_by_the_clock_of_the_emulator(emulator: StartEmulator, effect: str) -> None:
    kafka = emulator(topics={"orders": 2}, clock="manual")
    rule = kafka.fault(on="OffsetCommit", **{effect: 5})
    waiting = kafka.connect().post(COMMIT, 7)
    rule.wait_hits()
    kafka.advance(4.999)
    assert (kafka.groups(), waiting.done()) == ([] if effect == "delay_s" else ["offline"], False)
    kafka.advance(0.001)
    assert waiting.result(10).topics[0].partitions[0].error_code == 0


def test_a_held_request_goes_on_when_it_is_released_or_the_rule_is_removed(kafka: Emulator) -> None:
    with kafka.hold("OffsetCommit", client_id="anna") as held:
        first = kafka.connect("anna").post(COMMIT, 7)
        held.wait_hits(1)
        assert commit_code(kafka.connect("ben")) == ErrorCode.NONE
        held.release()
        first.result(10)
        second = kafka.connect("anna").post(COMMIT, 7)
        held.wait_hits(2)
    second.result(10)


def test_a_held_join_delays_the_generation_of_the_others(kafka: Emulator) -> None:
    first, second = ManualMember(kafka, "first"), ManualMember(kafka, "second")
    first.join()
    with kafka.hold("JoinGroup", client_id="second") as held:
        waiting = second.post_join()
        held.wait_hits()
        assert len(kafka.group("billing").now().members) == 1
        held.release()
        kafka.group("billing").wait_until(lambda seen: len(seen.members) == 2)
    waiting.cancel()


def test_a_heartbeat_that_was_answered_from_the_cache_is_hit_too(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, record=False)
    first, second = stable_pair(kafka)
    assert [first.heartbeat() for _ in range(3)] == [0, 0, 0]
    with kafka.fault(on="Heartbeat", client_id="first", answer=ErrorCode.UNKNOWN_MEMBER_ID, skip=1) as rule:
        codes = [first.heartbeat() for _ in range(3)]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
        assert [second.heartbeat() for _ in range(3)] == [0, 0, 0]
    assert rule.hits == 2
    assert first.heartbeat() == ErrorCode.NONE


def test_rules_that_cannot_match_leave_the_fast_path_on(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, record=False)
    first, _ = stable_pair(kafka)
    kafka.fault(on="OffsetCommit", drop="request")
    kafka.fault(on="Heartbeat", client_id="somebody-else", drop="request")
    before = len(kafka._emulator.cluster.brokers[0].connections())
    for _ in range(3):
        first.heartbeat()
    (connection,) = [each for each in kafka._emulator.cluster.brokers[0].connections() if each.client_id == "first"]
    assert (connection._cached is not None, before) == (True, 2)


# Which requests are hit


@pytest.mark.parametrize(
    ("condition", "is_hit"),
    [
        ({"group": "billing"}, True),
        ({"group": "other"}, False),
        ({"client_id": "first"}, True),
        ({"client_id": "second"}, False),
        ({"version": 3}, True),
        ({"version": 2}, False),
        ({"generation": 2}, True),
        ({"generation": 1}, False),
        ({"broker": 0}, True),
        ({"broker": 1}, False),
        ({"topic": "orders"}, False),
        ({"on": ("Heartbeat", "SyncGroup")}, True),
        ({"on": "SyncGroup"}, False),
        ({"chance": 0.0}, False),
        ({"times": 0}, False),
    ],
)
def test_all_conditions_must_hold(kafka: Emulator, condition: dict, is_hit: bool) -> None:
    first, _ = stable_pair(kafka)
    rule = kafka.fault(**({"on": "Heartbeat", "throttle_ms": 1} | condition))
    first.heartbeat()
    assert rule.hits == is_hit


def test_members_instances_and_topics_are_found_where_each_api_has_them(kafka: Emulator) -> None:
    anna = ManualMember(kafka, "client", instance_id="anna")
    anna.join()
    by_member = kafka.fault(member_id=anna.member_id, throttle_ms=1)
    by_instance = kafka.fault(instance_id="anna", throttle_ms=1, skip=1)
    anna.heartbeat()
    identity = MemberIdentity(member_id=anna.member_id, group_instance_id="anna")
    by_member.remove()
    for _ in range(2):
        anna.connection.send(LeaveGroupRequest(group_id="billing", members=[identity]), 3)
    assert (by_member.hits, by_instance.hits) == (1, 1)
    (topic_id,) = [
        topic.topic_id for topic in kafka.connect().send(MetadataRequest(topics=None)).topics if topic.name == "orders"
    ]
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    by_name = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="orders", partitions=[partition])])
    by_id = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])])
    with kafka.fault(topic="orders", throttle_ms=1) as rule:
        connection = kafka.connect()
        connection.send(by_name, 11)
        connection.send(by_id, 13)
        connection.send(COMMIT, 7)
        connection.send(ApiVersionsRequest(), 0)
    assert rule.hits == 3


def test_a_chance_is_drawn_from_its_seed(kafka: Emulator) -> None:
    connection = kafka.connect()
    draws = []
    for _ in range(2):
        with kafka.fault(on="ApiVersions", throttle_ms=9, chance=0.5, seed=3):
            draws.append([connection.send(ApiVersionsRequest(), 2).throttle_time_ms for _ in range(20)])
    assert draws[0] == draws[1]
    assert set(draws[0]) == {0, 9}


def test_the_first_rule_that_hits_decides(kafka: Emulator) -> None:
    kafka.fault(on="OffsetCommit", answer=ErrorCode.NOT_COORDINATOR, times=1)
    second = kafka.fault(on="OffsetCommit", answer=ErrorCode.UNKNOWN_MEMBER_ID, times=1)
    connection = kafka.connect()
    codes = [commit_code(connection) for _ in range(3)]
    assert codes == [ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert second.hits == 1


def test_a_rule_expires_by_the_clock_of_the_emulator(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, clock="manual")
    kafka.fault(on="OffsetCommit", answer=ErrorCode.NOT_COORDINATOR, expires_after_s=60)
    connection = kafka.connect()
    assert commit_code(connection) == ErrorCode.NOT_COORDINATOR
    kafka.advance(60)
    assert commit_code(connection) == ErrorCode.NONE


def test_a_rule_survives_a_kill(kafka: Emulator) -> None:
    rule = kafka.fault(on="OffsetCommit", answer=ErrorCode.NOT_COORDINATOR)
    kafka.kill()
    kafka.restart()
    assert commit_code(kafka.connect()) == ErrorCode.NOT_COORDINATOR
    assert rule.hits == 1


def test_a_late_wait_for_hits_says_how_many_there_were(kafka: Emulator) -> None:
    rule = kafka.fault(on="OffsetCommit", throttle_ms=1, skip=1)
    commit_code(kafka.connect())
    before_s = monotonic()
    with pytest.raises(TimeoutError, match=r"0 hits in 0.05 s, not 1; 1 requests have matched: FaultRule"):
        rule.wait_hits(1, timeout_s=0.05)
    assert monotonic() - before_s < 5


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"on": "OfsetCommit", "drop": "answer"}, "unknown API 'OfsetCommit': did you mean OffsetCommit"),
        ({"on": "OffsetCommit"}, "the rule does nothing"),
        ({"on": "OffsetCommit", "answer": 16, "drop": "answer"}, "cannot have both answer and drop"),
        ({"on": "OffsetCommit", "answer": 16, "repeat": True}, "not applied cannot be applied twice"),
        ({"on": "SaslHandshake", "answer": 16}, "answer does not exist for SaslHandshake; it exists for Add"),
        ({"answer": 16}, "answer does not exist for every API"),
        ({"on": ("Fetch", "Heartbeat"), "partition_error": 6}, "partition_error does not exist for Heartbeat"),
        ({"on": "Fetch", "partition_error": 6}, "give a topic, partitions or both; answer concerns all"),
        ({"on": "Fetch", "partition_error": 6, "topic": "orders", "repeat": True}, "repeat and partition_error cannot"),
        ({"on": "Fetch", "answer": 70_000}, "invalid answer: 70000; an error code has 16 bits"),
        ({"on": "SyncGroup", "false_answer": "second_leader"}, "second_leader is an answer to JoinGroup"),
        ({"on": "JoinGroup", "false_answer": "third_leader"}, "unknown false_answer: 'third_leader'; known are stale"),
        ({"on": "JoinGroup", "false_answer": "second_leader", "hold": True}, "hold and delay_s need a rule of their"),
        ({"on": "Fetch", "drop": "all"}, "invalid drop: 'all'; it is one of request, answer"),
        ({"on": "Fetch", "cut": "tail"}, "invalid cut: 'tail'; it is one of frame, body"),
        ({"on": "Fetch", "cut": "body", "close": "after"}, "cannot have both close and cut"),
        ({"on": "Fetch", "cut": "body", "cut_at": 1.5}, "invalid cut_at: 1.5; give a share below 1, or a whole number"),
        ({"on": "Fetch", "delay_s": -1}, "invalid delay_s: -1"),
        ({"on": "Fetch", "drop": "answer", "chance": 2}, "invalid chance: 2"),
        ({"on": "Fetch", "drop": "answer", "times": -2}, "invalid times: -2"),
        ({"on": "Fetch", "drop": "answer", "expires_after_s": 0}, "invalid expires_after_s: 0"),
    ],
)
def test_a_rule_that_cannot_do_what_it_says_is_refused(kafka: Emulator, rule: dict, text: str) -> None:
    with pytest.raises(InvalidFault, match=text):
        kafka.fault(**rule)


@pytest.mark.parametrize(
    "rule", [{"close": "before", "answer_delay_s": 1}, {"drop": "answer", "throttle_ms": 5}], ids=str
)
def test_an_answer_that_is_not_sent_cannot_be_late_or_throttled(kafka: Emulator, rule: dict[str, Any]) -> None:
    with pytest.raises(InvalidFault, match="leaves no answer to be delayed or throttled"):
        kafka.fault(on="Heartbeat", **rule)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"on": "Heartbeat", "answer": "NOT_COORDINATOR"}, "`answer`"),
        ({"on": "Heartbeat", "drop": "request", "client_id": None}, "`client_id`"),
        ({"on": "Heartbeat", "drop": "request", "group": 7}, "`group`"),
        ({"on": "OffsetCommit", "partition_error": 3, "topic": "orders", "partitions": 0}, "`partitions`"),
    ],
)
def test_a_value_of_another_type_is_refused(kafka: Emulator, rule: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidFault) as refused:
        kafka.fault(**rule)
    assert reason.strip("`") in str(refused.value)


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_commit_that_comes_late_is_applied_although_its_client_has_left(kafka: Emulator, is_slow: bool) -> None:
    """Kafka handles a request that it has read, too."""
    if is_slow:
        kafka.slow_broker(0, 0.2)
    else:
        kafka.fault(on="OffsetCommit", delay_s=0.2)
    connection = kafka.connect()
    connection.post(COMMIT, 7)
    while not kafka.exchanges(api="OffsetCommit"):  # until the broker has read it
        pass
    connection.close()
    kafka.group("offline").wait_until(lambda group: group.committed == {("orders", 0): 7})
