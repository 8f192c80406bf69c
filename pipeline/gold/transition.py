"""One event of a group as the tables see it: what was before, what is after, and which command it belongs to."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from regroup.coordinator.events import Event
from regroup.coordinator.group import Group, Member, MemberId
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    TopicPartition,
    decode_assignment,
    decode_subscribed_topics,
    decode_subscription,
)
from regroup.storage.records import Record

Row: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a table, and a row of it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One event. Several events of one command share cause and time."""

    record: Record
    event: Event
    before: Group
    after: Group
    begins_command: bool

    @property
    def at_ms(self) -> int:
        return self.event.at_ms


class Watch(Protocol):
    """Looks at a group's whole life, and tells rows of its tables as they are complete."""

    def sees(self, moment: Moment) -> Iterator[Row]: ...

    def ends(self) -> Iterator[Row]:
        """The history is over: what is still open."""
        ...


def identity(member: Member | None, name: MemberId) -> str:
    """Who a member is across restarts: its instance id, where it has one."""
    return (member.instance_id if member else None) or name


@lru_cache(maxsize=4096)
def partitions_in(share: bytes) -> tuple[TopicPartition, ...]:
    """Of an assignment; empty where the bytes are not the consumer protocol's."""
    try:
        return decode_assignment(share).partitions if share else ()
    except MalformedConsumerProtocol:
        return ()


@lru_cache(maxsize=4096)
def still_owned(metadata: bytes) -> tuple[TopicPartition, ...]:
    """What a member that joins again says it holds on to. An eager member gives everything up first (KIP-429)."""
    try:
        return decode_subscription(metadata).owned_partitions
    except MalformedConsumerProtocol:
        return ()


@lru_cache(maxsize=4096)
def topics_in(metadata: bytes) -> tuple[str, ...]:
    try:
        return decode_subscribed_topics(metadata)
    except MalformedConsumerProtocol:
        return ()
