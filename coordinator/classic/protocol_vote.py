"""The vote for the assignor of a generation, and the topics to which its members subscribe."""

from collections import Counter
from collections.abc import Collection

from regroup.coordinator.group import Member
from regroup.coordinator.offsets.log_batch_size import MAX_BATCH_BYTES
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_subscribed_topics
from regroup.protocol.java_order import java_hash_map_order

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type whose subscriptions the coordinator can decode; those of other types are opaque bytes."""


def select_protocol(members: Collection[Member]) -> str:
    """The protocol that most members vote for. Each member votes for the first of its protocols that every member
    supports (`selectProtocol`).

    A tie goes to the candidate that Java's hash map of the votes iterates first, as in Kafka.
    """
    first = next(iter(members)).profile.supported_protocols
    candidates = [protocol.name for protocol in first if supported_by_all(protocol.name, members)]
    votes = Counter(
        next(protocol.name for protocol in member.profile.supported_protocols if protocol.name in candidates)
        for member in members
    )
    return max(java_hash_map_order(votes), key=lambda name: votes[name])


def supported_by_all(protocol_name: str, members: Collection[Member]) -> bool:
    return all(member.supports(protocol_name) for member in members)


def subscribed_topics(
    protocol_type: str, protocol_name: str | None, members: Collection[Member]
) -> tuple[str, ...] | None:
    """The topics to which members subscribe, sorted. None if a subscription cannot be decoded, or if all together are
    larger than a batch of the log: then every topic counts as subscribed."""
    if not members:
        return ()
    if protocol_type != CONSUMER_PROTOCOL_TYPE or protocol_name is None:
        return None
    # The members of a group mostly send equal subscriptions, which may be long.
    encoded = dict.fromkeys(member.metadata(protocol_name) for member in members)
    if sum(map(len, encoded)) > MAX_BATCH_BYTES:
        return None  # Kafka could not write such a group, and decoding its subscriptions would make others wait
    try:
        subscriptions = [decode_subscribed_topics(each) for each in encoded]
    except MalformedConsumerProtocol:
        return None
    return tuple(sorted({topic for subscription in subscriptions for topic in subscription}))
