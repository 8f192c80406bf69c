"""Subscriptions and assignments inside JoinGroup and SyncGroup: there topics have names, in consumer groups ids."""

from collections.abc import Iterable, Mapping

from regroup.coordinator.consumer_group import Partitions, TopicId
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, encode_assignment

VERSION_BYTES = 2


def encoded_assignment(partitions: Mapping[TopicId, Iterable[int]], topics: TopicsImage, subscription: bytes) -> bytes:
    """Partitions as a client reads them, in the version of its subscription. Topics that exist no more are left out."""
    named = sorted(
        TopicPartition(topics.by_id[topic_id].name, index)
        for topic_id, indexes in partitions.items()
        if topic_id in topics.by_id
        for index in indexes
    )
    return encode_assignment(Assignment(version_of(subscription), tuple(named)))


def version_of(subscription: bytes) -> int:
    """The version with which a subscription begins; 0 for one that is too short, or for a negative one."""
    return max(int.from_bytes(subscription[:VERSION_BYTES], "big", signed=True), 0)


def partitions_by_id(named: Iterable[TopicPartition], topics: TopicsImage) -> Partitions:
    """Partitions by topic id, sorted. Topics that do not exist are left out."""
    by_id: dict[TopicId, set[int]] = {}
    for topic, index in named:
        if topic in topics.by_name:
            by_id.setdefault(topics.by_name[topic].topic_id, set()).add(index)
    return {topic_id: tuple(sorted(by_id[topic_id])) for topic_id in sorted(by_id)}
