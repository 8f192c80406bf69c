"""Leaders that know fewer partitions than their members own, and with a sticky assignor assign partitions twice.

leaders = OutdatedLeaders()
leaders.on_response("anna", response)           # what anna learns of topics, and as a leader of her group
leaders.assigns_twice("anna", message)          # whether this SyncGroup may give a partition to two members

A topic has grown, and the leader's metadata are older. Where the subscriptions of the members differ, Kafka's sticky
assignors compare the sorted list of owned partitions with that of the known ones in step, and stop at the first that
the leader does not know: all later ones count as free, and are assigned again.
"""

from collections.abc import Iterator
from typing import Any, Final

from regroup.lab.checker.members.member_invariants import COOPERATIVE_PROTOCOL, STICKY_PROTOCOL
from regroup.protocol.consumer.sticky_user_data import decode_sticky_user_data
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    Subscription,
    TopicPartition,
    decode_subscription,
)
from regroup.protocol.messages.cluster import MetadataResponse
from regroup.protocol.messages.group import JoinGroupResponse, SyncGroupRequest

STICKY_PROTOCOLS: Final = (STICKY_PROTOCOL, COOPERATIVE_PROTOCOL)


class OutdatedLeaders:
    """The members of a run, by name: how many partitions each knows, and as a leader what its members own."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        """By name and topic, the number of partitions by the last metadata."""
        self._owned: dict[str, list[TopicPartition]] = {}
        """By the name of a leader with a sticky assignor, what the members of its generation own if their subscriptions
        differ."""

    def on_response(self, name: str, response: Any) -> None:
        """Keep the topics that a member learns, and as a leader the subscriptions of its group."""
        if isinstance(response, MetadataResponse):
            counts = self._counts.setdefault(name, {})
            counts.update({each.name: len(each.partitions) for each in response.topics if each.name is not None})
        elif isinstance(response, JoinGroupResponse):
            name_of_protocol = response.protocol_name
            rows = response.members if name_of_protocol in STICKY_PROTOCOLS else []
            subscriptions = _subscriptions([row.metadata for row in rows])
            differ = len({frozenset(each.topics) for each in subscriptions}) > 1
            self._owned[name] = list(_owned(subscriptions, name_of_protocol == STICKY_PROTOCOL)) if differ else []

    def assigns_twice(self, name: str, message: SyncGroupRequest) -> bool:
        """Whether this is the SyncGroup of a leader whose members own partitions that it does not know."""
        if not message.assignments:
            return False
        counts = self._counts.get(name, {})
        return any(each.partition >= counts.get(each.topic, 0) for each in self._owned.get(name, ()))


def _subscriptions(metadata: list[bytes]) -> list[Subscription]:
    try:
        return [decode_subscription(each) for each in metadata]
    except MalformedConsumerProtocol:
        return []


def _owned(subscriptions: list[Subscription], is_in_user_data: bool) -> Iterator[TopicPartition]:
    """What members own by their subscriptions; those with the assignor `sticky` have given it up when they join, and
    their user data have it."""
    for each in subscriptions:
        yield from each.owned_partitions
        if is_in_user_data and each.user_data is not None:
            yield from decode_sticky_user_data(each.user_data).partitions
