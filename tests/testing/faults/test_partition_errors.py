"""Rules that let single partitions fail, of each API that names partitions."""

from collections.abc import Callable

import pytest

from regroup.protocol.client import ConnectionLost
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
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
from tests.testing.faults.conftest import commit_of

StartEmulator = Callable[..., Emulator]
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def codes_of(topics) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.error_code for topic in topics for each in topic.partitions}


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
