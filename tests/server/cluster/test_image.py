"""The cluster image: the fold of events, their stored form, and Kafka's rules for topic names."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from regroup.coordinator.layered_mapping import LAYERED_FROM
from regroup.protocol.topic_ids import topic_id_bytes
from regroup.server.cluster.events import (
    BROKER_START,
    CLUSTER_EVENT_VERSION,
    ClusterEvent,
    GroupConfigured,
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
    uuid_text,
)
from regroup.server.cluster.loading import load_cluster_state
from regroup.storage.errors import StoreDamaged, UnsupportedStoreVersion
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord, Snapshot

CREATED = TopicCreated(name="orders", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", partitions=2)
EVENTS = [
    CREATED,
    PartitionsAdded(name="orders", partitions=3),
    OffsetsReserved(name="orders", partition=1, before=1000),
    TopicConfigured(name="orders", configs={"retention.bytes": "5"}),
    GroupConfigured(name="payments", configs={"consumer.session.timeout.ms": "50000"}),
    ProducerIdsReserved(before=1000),
    ProducerInitialized(transactional_id="t", producer_id=7, epoch=0, timeout_ms=1000),
    PartitionsAddedToTransaction(transactional_id="t", partitions={"orders": (0, 1)}, at_ms=5),
    TransactionPrepared(transactional_id="t", committed=True, epoch=1, next_producer_id=8),
    TransactionCompleted(transactional_id="t"),
]


def snapshot_of(image: ClusterImage) -> Snapshot:
    return encode_cluster_snapshot(image, event_number=1, position=1, coordinator_epoch=1)


OTHER_VERSION = replace(snapshot_of(ClusterImage()), version=99, payload=b"{}")


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


@pytest.mark.parametrize("version", [CLUSTER_EVENT_VERSION - 1, CLUSTER_EVENT_VERSION + 1])
def test_an_event_of_another_version_is_refused(version: int) -> None:
    with pytest.raises(UnknownClusterEvent, match=f"topic-created/{version}"):
        decode_cluster_event(NewRecord(None, 1, 1, 0, "topic-created", version, b"{}", None))


def test_an_event_with_unknown_fields_is_refused() -> None:
    payload = b'{"before":1000,"added_later":1}'
    with pytest.raises(ValueError, match="unknown field `added_later`"):
        decode_cluster_event(NewRecord(None, 1, 1, 0, "producer-ids-reserved", CLUSTER_EVENT_VERSION, payload, None))


def test_an_image_is_decoded_from_its_snapshot_unchanged() -> None:
    image = fold(*EVENTS)
    assert decode_cluster_snapshot(snapshot_of(image)) == image


def test_a_snapshot_with_unknown_fields_is_damaged() -> None:
    with pytest.raises(StoreDamaged, match="The snapshot of the topics at position 1 is damaged"):
        decode_cluster_snapshot(replace(snapshot_of(ClusterImage()), payload=b'{"added_later":1}'))


async def store_with_snapshot(snapshot: Snapshot) -> MemoryStore:
    """A store with two events of the cluster, and a snapshot after the first."""
    store = MemoryStore()
    await store.append(
        [
            encode_cluster_event(event, event_number=number, coordinator_epoch=1, at_ms=5, cause=BROKER_START)
            for number, event in enumerate(EVENTS[:2], start=1)
        ]
    )
    await store.save_snapshots(1, [snapshot])
    return store


def new_uuid() -> UUID:
    return UUID(int=1)


async def test_a_load_folds_the_events_after_the_snapshot_only() -> None:
    image = fold(replace(CREATED, configs={"retention.bytes": "of the snapshot"}))
    store = await store_with_snapshot(snapshot_of(image))
    assert (await load_cluster_state(store, new_uuid)).image == evolve_cluster(image, EVENTS[1])


async def test_a_snapshot_of_another_version_is_ignored_while_the_whole_history_is_there() -> None:
    store = await store_with_snapshot(OTHER_VERSION)
    assert (await load_cluster_state(store, new_uuid)).image == fold(*EVENTS[:2])


async def test_a_snapshot_of_another_version_is_refused_after_a_trim() -> None:
    store = await store_with_snapshot(OTHER_VERSION)
    await store.trim(2)
    with pytest.raises(UnsupportedStoreVersion, match="Another version of regroup wrote the snapshots"):
        await load_cluster_state(store, new_uuid)


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
    assert topic_id_bytes(text) == uuid.bytes


@pytest.mark.parametrize(
    ("group", "partition"),
    [("g", 3), ("group", 47), ("group-id", 13), ("my-group", 12), ("console-consumer-12345", 6)],
)
def test_the_partition_of_a_group_is_that_of_javas_hash(group: str, partition: int) -> None:
    assert partition_of_key(group, 50) == partition


def test_the_one_hash_without_an_absolute_value_counts_as_0() -> None:
    assert partition_of_key("polygenelubricants", 50) == 0  # its hash is -2³¹


def test_an_image_of_many_transactions_is_stored_as_one_of_few() -> None:
    initialized = [
        ProducerInitialized(transactional_id=f"t{number}", producer_id=number, epoch=0, timeout_ms=1)
        for number in range(2 * LAYERED_FROM)
    ]
    image = fold(*initialized)
    assert list(image.transactions) == [each.transactional_id for each in initialized]
    snapshot = encode_cluster_snapshot(image, event_number=1, position=1, coordinator_epoch=1)
    assert decode_cluster_snapshot(snapshot) == image


def test_an_event_of_a_transaction_copies_no_topics() -> None:
    before = fold(CREATED)
    after = evolve_cluster(before, ProducerInitialized(transactional_id="t", producer_id=1, epoch=0, timeout_ms=1))
    assert after.topics is before.topics
