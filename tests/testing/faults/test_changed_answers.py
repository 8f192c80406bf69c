"""Answers that end early, and answers that are legal and false."""

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
)
from regroup.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from regroup.testing import Emulator
from tests.testing.conftest import ManualMember, commit, stable_pair
from tests.testing.faults.conftest import commit_of

StartEmulator = Callable[..., Emulator]


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
