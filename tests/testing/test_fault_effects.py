"""Effects of fault rules on single partitions, on the bytes of a response, and on what a response says."""

import socket
import struct
from collections.abc import Callable

import pytest

from regroup.protocol.client import ConnectionLost
from regroup.protocol.consumer.subscription import decode_assignment
from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.messages.cluster import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from regroup.protocol.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ProduceRequest,
)
from regroup.testing import Emulator
from tests.testing.conftest import ManualMember, commit, stable_pair

StartEmulator = Callable[..., Emulator]
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator(topics={"orders": 3, "bills": 1})


def commit_of(**partitions: dict[int, int]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="offline",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for index, offset in offsets.items()
                ],
            )
            for name, offsets in partitions.items()
        ],
    )


def codes_of(topics) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.error_code for topic in topics for each in topic.partitions}


# Single partitions


def test_a_commit_fails_for_one_partition_and_is_applied_for_the_others(kafka: Emulator) -> None:
    with kafka.fault(on="OffsetCommit", topic="orders", partitions=(1,), partition_error=UNKNOWN) as rule:
        response = kafka.connect().send(commit_of(orders={0: 5, 1: 6}, bills={0: 7}), 7)
    assert codes_of(response.topics) == {("orders", 0): 0, ("orders", 1): UNKNOWN, ("bills", 0): 0}
    assert kafka.committed("offline") == {("orders", 0): 5, ("bills", 0): 7}
    assert rule.hits == 1


def test_a_commit_fails_for_all_partitions_of_a_topic(kafka: Emulator) -> None:
    kafka.fault(on="OffsetCommit", topic="orders", partition_error=ErrorCode.OFFSET_METADATA_TOO_LARGE)
    response = kafka.connect().send(commit_of(orders={0: 5, 1: 6}, bills={0: 7}), 7)
    assert codes_of(response.topics) == {("orders", 0): 12, ("orders", 1): 12, ("bills", 0): 0}
    assert kafka.committed("offline") == {("bills", 0): 7}


def test_a_commit_of_which_nothing_is_left_is_not_applied(kafka: Emulator) -> None:
    kafka.fault(on="OffsetCommit", topic="orders", partition_error=UNKNOWN)
    response = kafka.connect().send(commit_of(orders={0: 5}), 7)
    assert codes_of(response.topics) == {("orders", 0): UNKNOWN}
    assert kafka.groups() == []


def test_partitions_are_a_condition_too(kafka: Emulator) -> None:
    rule = kafka.fault(on="OffsetCommit", partitions=(1, 2), partition_error=UNKNOWN)
    response = kafka.connect().send(commit_of(orders={0: 5}, bills={0: 7}), 7)
    assert (rule.matched, codes_of(response.topics)) == (0, {("orders", 0): 0, ("bills", 0): 0})


def test_topics_are_concerned_by_their_ids_too(kafka: Emulator) -> None:
    connection = kafka.connect()
    ids = {topic.name: topic.topic_id for topic in connection.send(MetadataRequest(topics=None), 12).topics}
    by_id = [
        OffsetCommitRequestTopic(topic_id=ids[name], partitions=commit_of(orders={0: 5}).topics[0].partitions)
        for name in ("orders", "bills")
    ]
    kafka.fault(on="OffsetCommit", topic="orders", partition_error=ErrorCode.UNKNOWN_TOPIC_ID)
    response = connection.send(OffsetCommitRequest(group_id="offline", topics=by_id), 10)
    codes = {topic.topic_id: topic.partitions[0].error_code for topic in response.topics}
    assert codes == {ids["orders"]: ErrorCode.UNKNOWN_TOPIC_ID, ids["bills"]: 0}
    assert kafka.committed("offline") == {("bills", 0): 5}


@pytest.mark.parametrize("version", [7, 8])
@pytest.mark.parametrize("asks_for_all", [False, True])
def test_a_fetch_of_offsets_fails_for_one_partition(kafka: Emulator, version: int, asks_for_all: bool) -> None:
    connection = kafka.connect()
    connection.send(commit_of(orders={0: 5, 1: 6}), 7)
    asked = None if asks_for_all else [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])]
    kafka.fault(on="OffsetFetch", topic="orders", partitions=(1,), partition_error=UNKNOWN)
    request = OffsetFetchRequest(group_id="offline", topics=asked)
    if version >= 8:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="offline", topics=asked)])
    response = connection.send(request, version)
    topics = response.groups[0].topics if version >= 8 else response.topics
    shown = [(each.partition_index, each.committed_offset, each.error_code) for each in topics[0].partitions]
    assert shown == [(0, 5, 0), (1, -1, UNKNOWN)]


def test_offsets_are_deleted_in_the_other_partitions(kafka: Emulator) -> None:
    connection = kafka.connect()
    connection.send(commit_of(orders={0: 5, 1: 6}), 7)
    kafka.fault(on="OffsetDelete", partitions=(1,), partition_error=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1)]
    topic = OffsetDeleteRequestTopic(name="orders", partitions=partitions)
    response = connection.send(OffsetDeleteRequest(group_id="offline", topics=[topic]), 0)
    assert codes_of(response.topics) == {("orders", 0): 0, ("orders", 1): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    assert kafka.committed("offline") == {("orders", 1): 6}


def test_a_fetch_with_an_error_is_answered_at_once_with_the_records_of_the_others(kafka: Emulator) -> None:
    kafka.produce("orders", "one", partition=0)
    kafka.fault(on="Fetch", topic="orders", partitions=(1,), partition_error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    asked = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in (0, 1)]
    request = FetchRequest(
        max_wait_ms=60_000, min_bytes=1_000_000, topics=[FetchTopic(topic="orders", partitions=asked)]
    )
    (topic,) = kafka.connect().send(request, 11).responses
    shown = [(each.partition_index, each.error_code, bool(each.records)) for each in topic.partitions]
    assert shown == [(0, 0, True), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER, False)]


def test_metadata_of_all_topics_names_one_partition_without_a_leader(kafka: Emulator) -> None:
    kafka.fault(on="Metadata", topic="orders", partitions=(2,), partition_error=ErrorCode.LEADER_NOT_AVAILABLE)
    response = kafka.connect().send(MetadataRequest(topics=None), 9)
    leaders = {
        (topic.name, each.partition_index): (each.error_code, each.leader_id)
        for topic in response.topics
        for each in topic.partitions
        if topic.name in ("orders", "bills")
    }
    assert leaders.pop(("orders", 2)) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert set(leaders.values()) == {(0, 0)}


def test_metadata_with_an_error_names_the_brokers(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 3}, brokers=2)
    kafka.fault(on="Metadata", topic="orders", answer=ErrorCode.LEADER_NOT_AVAILABLE)
    response = kafka.connect().send(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9)
    ports = [int(address.split(":")[1]) for address in kafka.bootstrap_servers.split(",")]
    assert [broker.port for broker in response.brokers] == ports
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("orders", 5)]


def test_offsets_are_listed_in_the_other_partitions(kafka: Emulator) -> None:
    kafka.produce("orders", "one", partition=0)
    kafka.fault(on="ListOffsets", partitions=(1,), partition_error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
    response = kafka.connect().send(ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=asked)]), 5)
    shown = [(each.partition_index, each.offset, each.error_code) for each in response.topics[0].partitions]
    assert shown == [(0, 1, 0), (1, -1, ErrorCode.UNKNOWN_LEADER_EPOCH)]


def test_a_producer_that_expects_no_answer_is_disconnected_by_an_error(kafka: Emulator) -> None:
    kafka.fault(on="Produce", answer=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    connection = kafka.connect()
    waiting = connection.post(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), 9)
    with pytest.raises(ConnectionLost):
        waiting.result(10)


# Answers cut short


def bytes_after_cut(kafka: Emulator, **rule) -> bytes:
    """What a client gets for an ApiVersions request, and for a second one if it is not disconnected."""
    host, port = kafka.bootstrap_servers.split(":")
    request = encode_request(RequestHeader(ApiVersionsRequest.api_key, 0, 77, "raw"), ApiVersionsRequest())
    with kafka.fault(on="ApiVersions", times=1, **rule), socket.create_connection((host, int(port)), 10) as client:
        client.sendall(request)
        received = client.recv(65536)
        while rule["cut"] == "frame" and (more := client.recv(65536)):
            received += more
        return received


@pytest.fixture
def whole(kafka: Emulator) -> bytes:
    return bytes_after_cut(kafka, cut="body", cut_at=2**31 - 1)


def test_the_first_bytes_of_a_frame_are_sent_and_the_connection_is_closed(kafka: Emulator, whole: bytes) -> None:
    size = len(whole) + 1
    (length,) = struct.unpack(">i", bytes_after_cut(kafka, cut="frame", cut_at=4))
    assert length == size - 4
    assert len(bytes_after_cut(kafka, cut="frame", cut_at=0.5)) == size // 2
    assert bytes_after_cut(kafka, cut="frame", cut_at=0) == b""
    assert len(bytes_after_cut(kafka, cut="frame", cut_at=1_000_000)) == size - 1


def test_a_body_that_ends_early_is_in_a_complete_frame_with_its_correlation_id(kafka: Emulator, whole: bytes) -> None:
    assert bytes_after_cut(kafka, cut="body", cut_at=2) == struct.pack(">ii", 6, 77) + whole[8:10]
    assert bytes_after_cut(kafka, cut="body", cut_at=0) == struct.pack(">ii", 4, 77)
    half = bytes_after_cut(kafka, cut="body", cut_at=0.5)
    assert struct.unpack_from(">ii", half) == (len(half) - 4, 77)
    assert len(half) == 8 + (len(whole) + 1 - 8) // 2


def test_the_request_of_a_cut_answer_is_applied(kafka: Emulator) -> None:
    with kafka.fault(on="OffsetCommit", cut="frame"), pytest.raises(ConnectionLost):
        kafka.connect().send(commit_of(orders={0: 5}), 7)
    assert kafka.committed("offline") == {("orders", 0): 5}


def test_a_heartbeat_is_not_answered_from_the_cut_answer(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    with kafka.fault(on="Heartbeat", cut="frame", times=1), pytest.raises(ConnectionLost):
        first.heartbeat()
    first.connection = kafka.connect("first", group="billing")
    assert [first.heartbeat() for _ in range(3)] == [0, 0, 0]


# Legal and false


def pair_in_next_generation(kafka: Emulator) -> tuple[ManualMember, ManualMember]:
    """Both members have joined the next generation, as their (perhaps false) answers say."""
    first, second = stable_pair(kafka)
    waiting = first.post_join()
    kafka.group("billing").wait_until(lambda group: group.state == "PreparingRebalance")
    other = second.post_join()
    first.answer, second.answer = waiting.result(10), other.result(10)
    return first, second


def test_a_member_gets_a_generation_that_is_over(kafka: Emulator) -> None:
    rule = kafka.fault(on="JoinGroup", client_id="second", skip=1, false_answer="stale_generation")
    first, second = pair_in_next_generation(kafka)
    assert (first.answer.generation_id, second.answer.generation_id, rule.hits) == (3, 2, 1)
    second.joined(second.answer)
    assert second.heartbeat() == ErrorCode.ILLEGAL_GENERATION


def test_a_follower_takes_itself_for_the_leader(kafka: Emulator) -> None:
    first, second = stable_pair(kafka)
    rule = kafka.fault(on="JoinGroup", false_answer="second_leader", times=1)
    waiting = first.post_join()
    kafka.group("billing").wait_until(lambda group: group.state == "PreparingRebalance")
    answers = [second.post_join().result(10), waiting.result(10)]
    assert [answer.leader for answer in answers] == [second.member_id, first.member_id]
    assert [member.member_id for member in answers[0].members] == [first.member_id, second.member_id]
    assert answers[0].members == answers[1].members
    assert (rule.hits, rule.matched) == (1, 2)


def test_the_leaders_own_answer_and_errors_are_no_hits(kafka: Emulator) -> None:
    rule = kafka.fault(on="JoinGroup", false_answer="second_leader")
    alone = ManualMember(kafka, "alone")
    alone.join()
    assert alone.post_join(session_timeout_ms=10**9).result(10).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert (rule.hits, rule.matched) == (0, 2)


def test_a_member_gets_the_assignment_of_another(kafka: Emulator) -> None:
    first, second = stable_pair(kafka)
    rule = kafka.fault(on="SyncGroup", client_id="first", false_answer="other_assignment")
    assert partitions_in(first.sync().result(10)) == [1]
    assert partitions_in(second.sync().result(10)) == [1]
    rule.remove()
    assert partitions_in(first.sync().result(10)) == [0]


def partitions_in(response) -> list[int]:
    return [each.partition for each in decode_assignment(response.assignment).partitions]


@pytest.mark.parametrize("version", [3, 4])
def test_a_client_is_sent_to_a_broker_that_is_not_in_charge(emulator: StartEmulator, version: int) -> None:
    kafka = emulator(topics={"orders": 1}, brokers=3)
    connection = kafka.connect()

    def found() -> tuple[int, int]:
        asked = {"coordinator_keys": ["billing"]} if version >= 4 else {"key": "billing"}
        response = connection.send(FindCoordinatorRequest(**asked), version)
        answer = response.coordinators[0] if version >= 4 else response
        return answer.node_id, answer.port

    true_id, true_port = found()
    with kafka.fault(on="FindCoordinator", group="billing", false_answer="other_coordinator") as rule:
        false_id, false_port = found()
    ports = [int(address.split(":")[1]) for address in kafka.bootstrap_servers.split(",")]
    assert (ports[true_id], ports[false_id]) == (true_port, false_port)
    assert (false_id != true_id, rule.hits) == (True, 1)


def test_a_broker_alone_is_named_truly(kafka: Emulator) -> None:
    rule = kafka.fault(on="FindCoordinator", false_answer="other_coordinator")
    assert kafka.connect().send(FindCoordinatorRequest(key="billing"), 3).node_id == 0
    assert rule.hits == 0


@pytest.mark.parametrize("version", [7, 8])
def test_committed_offsets_are_lower_than_the_true_ones(kafka: Emulator, version: int) -> None:
    connection = kafka.connect()
    connection.send(commit_of(orders={0: 5, 1: 0}), 7)
    kafka.fault(on="OffsetFetch", false_answer="older_offset", times=1)
    asked = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1, 2])]
    request = OffsetFetchRequest(group_id="offline", topics=asked)
    if version >= 8:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="offline", topics=None)])

    def fetched() -> list[int]:
        response = connection.send(request, version)
        topics = response.groups[0].topics if version >= 8 else response.topics
        return [each.committed_offset for each in topics[0].partitions]

    none = [] if version >= 8 else [-1]
    assert [fetched(), fetched()] == [[4, 0, *none], [5, 0, *none]]


def test_skip_counts_the_answers_that_could_be_false(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    rule = kafka.fault(on="OffsetFetch", false_answer="older_offset", skip=1)
    request = OffsetFetchRequest(group_id="billing", topics=None)
    offsets = []
    for number in range(3):
        if number:
            commit(first, {0: 7})
        topics = first.connection.send(request, 5).topics
        offsets.append(topics[0].partitions[0].committed_offset if topics else None)
    topics = first.connection.send(request, 5).topics
    assert [*offsets, topics[0].partitions[0].committed_offset] == [None, 7, 6, 6]
    assert (rule.hits, rule.matched) == (2, 4)


# How a rule ends


def test_requests_of_lost_connections_are_not_held(kafka: Emulator) -> None:
    held = kafka.hold("OffsetCommit")
    with kafka.connect("anna") as anna:
        anna.post(commit_of(orders={0: 5}), 7)
        held.wait_hits()
    second = kafka.connect("ben").post(commit_of(orders={0: 6}), 7)
    held.wait_hits(2)
    fault = held._fault._fault
    assert [exchange.header.client_id for exchange in fault.held] == ["ben"]
    held.release()
    second.result(10)
    assert kafka.committed("offline") == {("orders", 0): 6}


def test_a_rule_ends_with_its_block_by_removal_or_by_time(emulator: StartEmulator) -> None:
    kafka = emulator(clock="manual")
    with kafka.hold("SyncGroup") as block:
        assert block.is_active
    removed = kafka.hold("SyncGroup")
    removed.remove()
    removed.remove()
    expiring = kafka.hold("SyncGroup", expires_after_s=5)
    kafka.advance(4.9)
    assert (block.is_active, removed.is_active, expiring.is_active) == (False, False, True)
    kafka.advance(0.1)
    assert not expiring.is_active


def test_an_expired_rule_releases_what_it_holds(emulator: StartEmulator) -> None:
    kafka = emulator(clock="manual", topics={"orders": 1})
    held = kafka.hold("OffsetCommit", expires_after_s=5)
    waiting = kafka.connect().post(commit_of(orders={0: 5}), 7)
    held.wait_hits()
    kafka.advance(5)
    assert waiting.result(10).topics[0].partitions[0].error_code == 0


def test_a_held_request_is_delayed_after_its_release(emulator: StartEmulator) -> None:
    kafka = emulator(clock="manual", topics={"orders": 1})
    held = kafka.hold("OffsetCommit")
    held.remove()
    held = kafka.fault(on="OffsetCommit", hold=True, delay_s=3)
    waiting = kafka.connect().post(commit_of(orders={0: 5}), 7)
    held.wait_hits()
    held.release()
    kafka.advance(2.9)
    assert not waiting.done()
    kafka.advance(0.1)
    assert waiting.result(10).topics[0].partitions[0].error_code == 0


def test_no_more_than_a_thousand_rules_are_in_force(kafka: Emulator) -> None:
    for _ in range(1_000):
        kafka.fault(on="SyncGroup", drop="request")
    with pytest.raises(ValueError, match="1000 rules are in force, and no more are possible: remove some"):
        kafka.fault(on="SyncGroup", drop="request")
