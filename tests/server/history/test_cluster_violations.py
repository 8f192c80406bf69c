"""Events of the cluster that contradict those before them are found by `regroup verify`."""

import pytest

from regroup.server.cluster.events import (
    ClusterEvent,
    OffsetsReserved,
    PartitionsAdded,
    PartitionsAddedToTransaction,
    ProducerIdsReserved,
    ProducerInitialized,
    TopicCreated,
    TopicDeleted,
    TransactionCompleted,
    TransactionPrepared,
)
from regroup.server.cluster.image import ClusterImage, evolve_cluster
from regroup.server.history.verify_store import violations_of_step

BEFORE: list[ClusterEvent] = [
    TopicCreated(name="orders", topic_id="an id", partitions=2),
    ProducerIdsReserved(before=1000),
    ProducerInitialized(transactional_id="open", producer_id=1, epoch=0, timeout_ms=100),
    PartitionsAddedToTransaction(transactional_id="open", partitions={"orders": (0,)}, at_ms=1),
    ProducerInitialized(transactional_id="prepared", producer_id=2, epoch=0, timeout_ms=100),
    PartitionsAddedToTransaction(transactional_id="prepared", partitions={"orders": (0,)}, at_ms=1),
    TransactionPrepared(transactional_id="prepared", committed=True, epoch=0),
]


def cluster() -> ClusterImage:
    image = ClusterImage()
    for event in BEFORE:
        assert list(violations_of_step(image, event)) == []
        image = evolve_cluster(image, event)
    return image


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (TopicCreated(name="orders", topic_id="another", partitions=1), "Topic orders was created while it existed."),
        (
            TopicDeleted(name="invoices", topic_id="an id"),
            "Topic invoices was deleted, but no topic had this name and id.",
        ),
        (
            TopicDeleted(name="orders", topic_id="another"),
            "Topic orders was deleted, but no topic had this name and id.",
        ),
        (PartitionsAdded(name="orders", partitions=2), "Topic orders was extended to 2 partitions, but had 2."),
        (
            OffsetsReserved(name="orders", partition=2, before=10),
            "Offsets were reserved in partition 2 of topic orders, which does not exist.",
        ),
        (ProducerIdsReserved(before=1000), "Producer ids were reserved that were in use."),
        (
            PartitionsAddedToTransaction(transactional_id="prepared", partitions={"orders": (1,)}, at_ms=2),
            "Partitions were added to transaction prepared after it was prepared.",
        ),
        (
            TransactionCompleted(transactional_id="open"),
            "Transaction open was completed, but had not been prepared.",
        ),
    ],
)
def test_a_contradiction_is_one_violation(event: ClusterEvent, sentence: str) -> None:
    assert list(violations_of_step(cluster(), event)) == [sentence]


@pytest.mark.parametrize(
    "event",
    [
        TopicCreated(name="invoices", topic_id="another", partitions=1),
        TopicDeleted(name="orders", topic_id="an id"),
        PartitionsAdded(name="orders", partitions=3),
        OffsetsReserved(name="orders", partition=1, before=10),
        ProducerIdsReserved(before=1001),
        PartitionsAddedToTransaction(transactional_id="open", partitions={"orders": (1,)}, at_ms=2),
        TransactionCompleted(transactional_id="prepared"),
    ],
)
def test_the_next_event_of_a_sound_history_is_no_violation(event: ClusterEvent) -> None:
    assert list(violations_of_step(cluster(), event)) == []
