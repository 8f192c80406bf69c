"""The cluster image: the fold of events, their stored form, and Kafka's rules for topic names."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.server.cluster.events import (
    BROKER_START,
    ClusterEvent,
    OffsetsReserved,
    PartitionsAdded,
    PartitionsAddedToTransaction,
    ProducerIdsReserved,
    ProducerInitialized,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TransactionCompleted,
    TransactionPrepared,
    UnknownClusterEvent,
    decode_cluster_event,
    encode_cluster_event,
)
from regroup.server.cluster.image import (
    ClusterImage,
    decode_cluster_snapshot,
    encode_cluster_snapshot,
    evolve_cluster,
    partition_of_key,
    topic_name_error,
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
    ProducerInitialized(transactional_id="t", producer_id=7, epoch=0, timeout_ms=1000),
    PartitionsAddedToTransaction(transactional_id="t", partitions={"orders": (0, 1)}, at_ms=5),
    TransactionPrepared(transactional_id="t", committed=True, epoch=1, next_producer_id=8),
    TransactionCompleted(transactional_id="t"),
]


def fold(*events: ClusterEvent) -> ClusterImage:
    image = ClusterImage()
    for event in events:
        image = evolve_cluster(image, event)
    return image


def test_partitions_reserved_offsets_and_settings_of_a_topic_are_folded() -> None:
    image = fold(*EVENTS)
    orders = image.topics["orders"]
    assert (orders.partitions, orders.reserved_before, orders.configs) == (3, (0, 1000, 0), {"retention.bytes": "5"})
    assert image.producer_ids_before == 1000


def test_a_deleted_topic_may_be_created_again_with_another_id() -> None:
    deleted = TopicDeleted(name="orders", topic_id=CREATED.topic_id)
    recreated = TopicCreated(name="orders", topic_id="BBBBBBBBBBBBBBBBBBBBBA", partitions=1)
    assert fold(CREATED, deleted).topics == {}
    assert fold(CREATED, deleted, recreated).topics["orders"].topic_id == recreated.topic_id


@pytest.mark.parametrize("event", [*EVENTS, TopicDeleted(name="orders", topic_id=CREATED.topic_id)])
def test_every_event_is_decoded_from_its_record_unchanged(event: ClusterEvent) -> None:
    record = encode_cluster_event(event, event_number=1, coordinator_epoch=1, at_ms=5, cause=BROKER_START)
    assert record.group is None
    assert decode_cluster_event(record) == event


def test_an_event_of_a_newer_version_is_refused() -> None:
    with pytest.raises(UnknownClusterEvent, match="topic-created/2"):
        decode_cluster_event(NewRecord(None, 1, 1, 0, "topic-created", 2, b"{}", None))


def test_an_image_is_decoded_from_its_snapshot_unchanged() -> None:
    image = fold(*EVENTS)
    assert decode_cluster_snapshot(encode_cluster_snapshot(image)) == image


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "x" * 250, "a/b"])
def test_a_name_that_kafka_refuses_is_refused(name: str) -> None:
    assert topic_name_error(name, ())


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..."])
def test_a_name_that_kafka_accepts_is_accepted(name: str) -> None:
    assert topic_name_error(name, ()) is None


def test_two_names_that_differ_in_dot_and_underscore_collide() -> None:
    image = fold(TopicCreated(name="a.b", topic_id=CREATED.topic_id, partitions=1))
    assert "collides" in (topic_name_error("a_b", image.topics) or "")


@given(st.uuids())
def test_an_id_is_decoded_from_its_text_unchanged(uuid: UUID) -> None:
    text = uuid_text(uuid)
    assert len(text) == 22
    assert uuid_bytes(text) == uuid.bytes


@pytest.mark.parametrize(
    ("group", "partition"),
    [("g", 3), ("group", 47), ("group-id", 13), ("my-group", 12), ("console-consumer-12345", 6)],
)
def test_the_partition_of_a_group_is_that_of_javas_hash(group: str, partition: int) -> None:
    assert partition_of_key(group, 50) == partition


def test_the_one_hash_without_an_absolute_value_counts_as_0() -> None:
    assert partition_of_key("polygenelubricants", 50) == 0  # its hash is -2³¹
