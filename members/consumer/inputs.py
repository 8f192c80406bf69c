"""The inputs of a `ConsumerMachine`, as values: responses, calls of the application, and deadlines. The time is a
separate argument.

from the transport     ResponseReceived, RequestFailed, MetadataUpdated
from the clock         TimePassed
from the application   Subscribe, Unsubscribe, Poll, PollReturned, RecordsConsumed, Commit, ListenerReturned,
                       EnforceRebalance, Close
"""

import re
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from regroup.assignors.interface import ClusterMetadata
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.message import Message

__all__ = [
    "ResponseReceived",
    "RequestFailed",
    "MetadataUpdated",
    "TimePassed",
    "Subscribe",
    "Unsubscribe",
    "Poll",
    "PollReturned",
    "RecordsConsumed",
    "Commit",
    "ListenerReturned",
    "EnforceRebalance",
    "Close",
    "ConsumerInput",
]


class ResponseReceived(msgspec.Struct, frozen=True):
    """The transport has received the response to the request with this id."""

    request_id: int
    response: Message


class RequestFailed(msgspec.Struct, frozen=True):
    """The request with this id has no response: the connection was lost or too slow, or the broker is too old.

    `is_unsupported`: no version that the broker offers can carry the request.
    """

    request_id: int
    reason: str
    is_unsupported: bool = False


class MetadataUpdated(msgspec.Struct, frozen=True):
    """Topics, partitions and racks that come from elsewhere than from a Metadata response."""

    cluster: ClusterMetadata


class TimePassed(msgspec.Struct, frozen=True):
    """The `deadline_ms` of the last effects has been reached. If this input comes earlier than that, nothing
    happens."""


class Subscribe(msgspec.Struct, frozen=True):
    """Subscribe to these topics.

    With a pattern, subscribe to all topics whose whole name matches it; `topics` is ignored then.
    """

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None


class Unsubscribe(msgspec.Struct, frozen=True):
    """Unsubscribe from all topics; a dynamic member leaves the group."""


class Poll(msgspec.Struct, frozen=True):
    """The application has called poll(). It stays inside until `PollReturned`, or an effect with a `poll_error`."""


class PollReturned(msgspec.Struct, frozen=True):
    """The application's poll() has returned, and it processes its records. Only heartbeats are sent meanwhile."""


class RecordsConsumed(msgspec.Struct, frozen=True):
    """The application has processed all records with lower offsets than these, by partition."""

    positions: Mapping[TopicPartition, int]


class Commit(msgspec.Struct, frozen=True):
    """Commit these offsets, or if None is given, all positions.

    With `is_sync` the commit is retried as commitSync() does it; otherwise it is sent as by commitAsync().
    """

    offsets: Mapping[TopicPartition, int] | None = None
    is_sync: bool = False


class ListenerReturned(msgspec.Struct, frozen=True):
    """The application's rebalance listener has returned, so that the rebalance goes on; see
    `ConsumerSettings.waits_for_listener`."""


class EnforceRebalance(msgspec.Struct, frozen=True):
    """The application has called enforceRebalance(): the member rejoins (KIP-568)."""

    reason: str = "rebalance enforced by user"


class Close(msgspec.Struct, frozen=True):
    """Close the consumer: commit, give up all partitions, and leave the group.

    If `leaves_group` is None, a dynamic member leaves and a static one does not (KIP-345); True or False decide it for
    both (KIP-1092).
    """

    timeout_ms: int = 30_000
    leaves_group: bool | None = None


ConsumerInput: TypeAlias = (
    ResponseReceived
    | RequestFailed
    | MetadataUpdated
    | TimePassed
    | Subscribe
    | Unsubscribe
    | Poll
    | PollReturned
    | RecordsConsumed
    | Commit
    | ListenerReturned
    | EnforceRebalance
    | Close
)
"""Any input of a consumer."""
