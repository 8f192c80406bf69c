"""The inputs of a `ConsumerMachine`, as values; the time is handed in beside them.

from the transport     ResponseReceived, RequestFailed, MetadataUpdated
from the clock         TimePassed
from the application   Subscribe, Unsubscribe, Poll, PollReturned, RecordsConsumed, Commit, ListenerReturned,
                       EnforceRebalance, Close
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The response to the request with this id."""

    request_id: int
    response: Message


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The request with this id gets no response: the connection was lost or too slow, or the broker is too old.

    `is_unsupported`: no version that the broker offers can carry the request.
    """

    request_id: int
    reason: str
    is_unsupported: bool = False


@dataclass(frozen=True, slots=True)
class MetadataUpdated:
    """Topics, partitions and racks from elsewhere, in place of a Metadata response."""

    cluster: ClusterMetadata


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The deadline of the last effects has been reached; an earlier time does no harm."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscribe to these topics, or to all whose whole name matches the pattern; `topics` is ignored then."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Unsubscribe from all topics; a dynamic member leaves the group."""


@dataclass(frozen=True, slots=True)
class Poll:
    """The application has called poll(), and stays in it until `PollReturned` or a `poll_error`."""


@dataclass(frozen=True, slots=True)
class PollReturned:
    """The application has its records and processes them; only heartbeats go on."""


@dataclass(frozen=True, slots=True)
class RecordsConsumed:
    """The application has processed all records below these offsets."""

    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit these offsets, or all positions. `is_sync`: retry as commitSync() does; otherwise as commitAsync()."""

    offsets: Mapping[TopicPartition, int] | None = None
    is_sync: bool = False


@dataclass(frozen=True, slots=True)
class ListenerReturned:
    """The application's rebalance listener has returned; see `ConsumerSettings.waits_for_listener`."""


@dataclass(frozen=True, slots=True)
class EnforceRebalance:
    """The application asks for a rebalance (KIP-568)."""

    reason: str = "rebalance enforced by user"


@dataclass(frozen=True, slots=True)
class Close:
    """Commit, give up all partitions, and leave the group.

    `leaves_group` None: a dynamic member leaves, a static one does not (KIP-345); a bool decides (KIP-1092).
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
"""Any input."""
