"""What can happen to a consumer. Each is a value; the time comes beside it.

from the wire          Answered, Unanswered, ClusterSeen
from the clock         TimePassed
from the application   Subscribe, Unsubscribe, Poll, PollReturned, Consumed, Commit, ListenerReturned,
                       EnforceRebalance, Close
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from regroup.assignors.interface import Cluster
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.message import Message


@dataclass(frozen=True, slots=True)
class Answered:
    """The response to the request of this number."""

    number: int
    response: Message


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There will be no response: the connection broke, or the broker is too old for the request.

    `unsupported` is for the latter: the request could not be written in any version that the broker speaks.
    """

    number: int
    reason: str
    unsupported: bool = False


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """Topics, partitions and racks, from someone who knows; takes the place of a Metadata response."""

    cluster: Cluster


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The clock has reached the deadline of the last step, or any other moment."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """To these topics, or to all whose whole name matches the pattern (then `topics` is not looked at)."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """From everything; a dynamic member leaves the group."""


@dataclass(frozen=True, slots=True)
class Poll:
    """The application has called poll() and is inside until `PollReturned`, or until an error comes out of it."""


@dataclass(frozen=True, slots=True)
class PollReturned:
    """The application has its records and works on them; only heartbeats go on."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """The application has been given all records below these offsets."""

    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit these offsets, by default all positions. With `wait` (commitSync) it is tried until it succeeds."""

    offsets: Mapping[TopicPartition, int] | None = None
    wait: bool = False


@dataclass(frozen=True, slots=True)
class ListenerReturned:
    """The application's callbacks have returned; see `ConsumerSettings.waits_for_listener`."""


@dataclass(frozen=True, slots=True)
class EnforceRebalance:
    """The application wants a rebalance (KIP-568)."""

    reason: str = "rebalance enforced by user"


@dataclass(frozen=True, slots=True)
class Close:
    """Commit, give up everything, leave. `leaves_group` None: only a dynamic member does (KIP-345, KIP-1092)."""

    timeout_ms: int = 30_000
    leaves_group: bool | None = None


Happening: TypeAlias = (
    Answered
    | Unanswered
    | ClusterSeen
    | TimePassed
    | Subscribe
    | Unsubscribe
    | Poll
    | PollReturned
    | Consumed
    | Commit
    | ListenerReturned
    | EnforceRebalance
    | Close
)
