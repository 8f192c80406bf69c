"""What the builders of the tables have in common: their interface, their input, and decoded consumer protocol bytes."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Protocol

from regroup.coordinator.events import Event
from regroup.coordinator.group import Group, Member
from regroup.pipeline.gold.folded_rows import FoldedRows
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    TopicPartition,
    decode_subscribed_topics,
    decode_subscription,
)
from regroup.storage.records import Record


class Transition(NamedTuple):
    """One event of a group, with the group before and after it."""

    record: Record
    event: Event
    before: Group
    after: Group
    begins_command: bool
    """Whether the event is the first one of a command. The events of one command have the same cause and time."""
    at_ms: int


class TableBuilder(Protocol):
    """Builds the rows of a table from the events of one group, and adds each to `rows` when it is complete."""

    def on_event(self, transition: Transition, rows: FoldedRows) -> None: ...

    def on_end(self, rows: FoldedRows) -> None:
        """Add the rows that are still incomplete after the last event."""
        return


def member_identity(member: Member) -> str:
    """What identifies a member across restarts: the group instance id of a static member, otherwise the member id."""
    return member.instance_id or member.member_id


@lru_cache(maxsize=4096)
def owned_partitions(metadata: bytes) -> tuple[TopicPartition, ...]:
    """The partitions that a member's JoinGroup lists as owned, from its metadata.

    None for an eager member, which revokes all partitions before it rejoins (KIP-429).
    """
    try:
        return decode_subscription(metadata).owned_partitions
    except MalformedConsumerProtocol:
        return ()


@lru_cache(maxsize=4096)
def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics of a subscription. Empty if the bytes are not of the consumer protocol."""
    try:
        return decode_subscribed_topics(metadata)
    except MalformedConsumerProtocol:
        return ()


@lru_cache(maxsize=4096)
def rack_of(metadata: bytes) -> str | None:
    """The rack in a subscription (KIP-881); None if there is none, or the bytes are not of the consumer protocol."""
    try:
        return decode_subscription(metadata).rack_id
    except MalformedConsumerProtocol:
        return None


def partition_names(partitions: Iterable[TopicPartition]) -> list[str]:
    """Topic and number of each partition, such as `orders 3`."""
    return [f"{topic} {index}" for topic, index in partitions]
