"""Topics as events: what they add up to, their written form, and Kafka's rules for names."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.server.cluster.events import (
    ClusterEvent,
    OffsetsReserved,
    PartitionsAdded,
    ProducerBegan,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TransactionCompleted,
    TransactionGrew,
    TransactionPrepared,
    UnknownClusterEvent,
    read_event,
    write_event,
)
from regroup.server.cluster.topics import (
    Topics,
    evolve,
    from_snapshot,
    name_is_illegal,
    partition_of_key,
    snapshot_of,
    uuid_bytes,
    uuid_text,
)
from regroup.storage.records import NewRecord

CREATED = TopicCreated(name="orders", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", partitions=2)
EVENTS = [
    CREATED,
    PartitionsAdded(name="orders", partitions=3),
    OffsetsReserved(name="orders", partition=1, before=1000),
    TopicConfigured(name="orders", configs={"retention.bytes": "5"}),
    ProducerIdsReserved(before=1000),
    ProducerBegan(transactional_id="t", producer_id=7, epoch=0, timeout_ms=1000),
    TransactionGrew(transactional_id="t", partitions={"orders": (0, 1)}, at_ms=5),
    TransactionPrepared(transactional_id="t", committed=True, epoch=1, next_producer_id=8),
    TransactionCompleted(transactional_id="t"),
]


def given_topics(*events: ClusterEvent) -> Topics:
    topics = Topics()
    for event in events:
        topics = evolve(topics, event)
    return topics


def test_a_topic_grows_reserves_and_is_configured() -> None:
    topics = given_topics(*EVENTS)
    orders = topics.by_name["orders"]
    assert (orders.partitions, orders.reserved, orders.configs) == (3, (0, 1000, 0), {"retention.bytes": "5"})
    assert topics.producer_ids_before == 1000


def test_a_deleted_topic_is_gone_and_may_come_again_with_another_id() -> None:
    gone = TopicDeleted(name="orders", topic_id=CREATED.topic_id)
    again = TopicCreated(name="orders", topic_id="BBBBBBBBBBBBBBBBBBBBBA", partitions=1)
    assert given_topics(CREATED, gone).by_name == {}
    assert given_topics(CREATED, gone, again).by_name["orders"].topic_id == again.topic_id


@pytest.mark.parametrize("event", [*EVENTS, TopicDeleted(name="orders", topic_id=CREATED.topic_id)])
def test_every_event_comes_back_from_its_record_as_it_was(event: ClusterEvent) -> None:
    record = write_event(event, number=1, reign=1, at_ms=5, cause=None)
    assert record.group is None
    assert read_event(record) == event


def test_a_record_of_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(UnknownClusterEvent, match="topic-created/2"):
        read_event(NewRecord(None, 1, 1, 0, "topic-created", 2, b"{}", None))


def test_a_snapshot_holds_everything() -> None:
    topics = given_topics(*EVENTS)
    assert from_snapshot(snapshot_of(topics)) == topics


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "x" * 250, "a/b"])
def test_a_name_that_kafka_would_refuse_is_refused(name: str) -> None:
    assert name_is_illegal(name, {})


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..."])
def test_a_name_that_kafka_would_take_is_taken(name: str) -> None:
    assert name_is_illegal(name, {}) is None


def test_two_names_that_differ_in_dot_and_underscore_collide() -> None:
    topics = given_topics(TopicCreated(name="a.b", topic_id=CREATED.topic_id, partitions=1))
    assert "collides" in (name_is_illegal("a_b", topics.by_name) or "")


@given(st.uuids())
def test_an_id_comes_back_from_its_text(uuid: UUID) -> None:
    text = uuid_text(uuid)
    assert len(text) == 22
    assert uuid_bytes(text) == uuid.bytes


@pytest.mark.parametrize(
    ("group", "partition"),
    [("g", 3), ("group", 47), ("group-id", 13), ("my-group", 12), ("console-consumer-12345", 6)],
)
def test_a_group_lives_where_java_puts_it(group: str, partition: int) -> None:
    assert partition_of_key(group, 50) == partition


def test_the_one_hash_that_has_no_absolute_value_counts_as_nought() -> None:
    assert partition_of_key("polygenelubricants", 50) == 0  # its hash is -2³¹
