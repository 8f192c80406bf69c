"""Subscriptions and assignments inside JoinGroup and SyncGroup: there topics have names, in consumer groups ids."""

from collections.abc import Iterable, Mapping

from regroup.coordinator.consumer.targets import java_uuid_hash
from regroup.coordinator.consumer_group import Partitions, TopicId
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, encode_assignment
from regroup.protocol.java_order import in_hash_map_order

VERSION_BYTES = 2


def encoded_assignment(partitions: Mapping[TopicId, Iterable[int]], topics: TopicsImage, subscription: bytes) -> bytes:
    """The partitions as an encoded assignment of the classic consumer protocol, in the version of the encoded
    `subscription`. Topics that no longer exist are left out.

    Topics have the order of Kafka's hash map of their ids.
    """
    named = tuple(
        TopicPartition(topics.by_id[topic_id].name, index)
        for topic_id in in_hash_map_order(partitions, java_uuid_hash)
        if topic_id in topics.by_id
        for index in sorted(partitions[topic_id])
    )
    return encode_assignment(Assignment(version_of(subscription), named))


def version_of(subscription: bytes) -> int:
    """The version at the beginning of an encoded subscription; 0 if the bytes are too few for a version, or if it is
    negative."""
    return max(int.from_bytes(subscription[:VERSION_BYTES], "big", signed=True), 0)


def partitions_by_id(named: Iterable[TopicPartition], topics: TopicsImage) -> Partitions:
    """Partitions by topic id. The topics stay in order, since those in one bucket of Kafka's hash map keep it; topics
    that do not exist are left out."""
    by_id: dict[TopicId, set[int]] = {}
    for topic, index in named:
        if topic in topics.by_name:
            by_id.setdefault(topics.by_name[topic].topic_id, set()).add(index)
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in by_id.items()}
