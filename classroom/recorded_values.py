"""What was recorded beside the events of a group, as values: requests and their responses, ends of logs, and what the
members of a simulation read again and believed they owned.

`recorded/` reads them from a store, and a timeline has them (`timeline.py`).
"""

from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from regroup.classroom.points import Point
from regroup.coordinator.group import MemberId
from regroup.protocol.consumer.subscription import TopicPartition


class LogEnd(NamedTuple):
    """The offset at which the log of a partition ended at some time, by a recorded response; only changes are kept."""

    at_ms: int
    offset: int
    """The offset that the next record gets."""


class RepeatedRead(NamedTuple):
    """Records that a member of a simulation processed, after a member of the group had processed them before."""

    at_ms: int
    client_id: str
    first: int
    """The offset of the first of them."""
    record_count: int


class ExchangeFate(StrEnum):
    """What became of a request and its response."""

    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    """It waited for its response when the recording ended, or the coordinator never answers it: the held SyncGroup of a
    removed member, for example."""
    CLOSED = "closed"
    """Its connection was lost or closed before the response was sent."""
    REQUEST_LOST = "request lost"
    """It never arrived, or a fault rule dropped it."""
    RESPONSE_LOST = "response lost"
    """It was handled, and the client did not get the response."""
    LATE = "late"
    """The request or the response took longer than the network or the broker alone would have taken."""
    REPEATED = "repeated"
    """A fault rule let the request be handled twice."""


class TimelineExchange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request that names the group, and its response; or a run of equal heartbeats on one connection.

    Times are epoch milliseconds by the clock of the brokers. The decoded messages are read from the store on demand
    (`read_messages` in `recorded/messages.py`).
    """

    number: int
    """1, 2, 3 … in the order of the timeline."""
    member_id: MemberId
    """The member id in the request, or the one that its response gave; empty if there is none, or several."""
    client_id: str
    api: str
    """Kafka's name: `JoinGroup`."""
    version: int
    connection: str
    """The connection's name in the causes of events: `0-3@7`."""
    correlation_id: int
    """Of a run, that of the first request."""
    at_ms: int
    """When it came; for a request that never arrived, when it was sent."""
    arrived_at_ms: int | None
    """When it came; of a run, the first. None if it never arrived."""
    last_at_ms: int
    """When the last request of the run came."""
    answered_at_ms: int | None
    """When the response was sent; of a run, the first. None if none was."""
    error: str
    """`NONE`, or the first error code in the response; empty without a response."""
    fate: ExchangeFate
    error_message: str = ""
    """What the response says about its error beside the code; empty if it says nothing."""
    reason: str = ""
    """Why it was lost, late, closed or repeated."""
    count: int = 1
    """How many equal heartbeats the run has."""
    seen_ms: tuple[int, ...] = ()
    """The known times at which the requests of a run came; fewer than `count` if several came between two writes of the
    recorder."""
    generation: int | None = None
    """The generation that the request names; None if it names none."""
    events: tuple[int, ...] = ()
    """The positions of the group's events to which it led."""
    repeats: int | None = None
    """The number of the earlier request without an answer after which the client sent this one again."""
    closed_at_ms: int | None = None
    """When its connection was closed without an answer."""
    sent_at_ms: int | None = None
    """When the client sent it, where its network was observed and the request was lost or late."""
    received_at_ms: int | None = None
    """When the client got the response, where its network was observed and the response was late."""
    recorded_number: int = 0
    """The number of its row in the recording; 0 for a request that never arrived."""

    @property
    def is_refused(self) -> bool:
        """Whether the response has an error code that means a refusal.

        MEMBER_ID_REQUIRED does not: so a new member gets its id (KIP-394). Nor does REBALANCE_IN_PROGRESS in response
        to a heartbeat, which is accepted.
        """
        if self.error in ("", "NONE", "MEMBER_ID_REQUIRED", NOT_KEPT):
            return False
        return (self.api, self.error) != ("Heartbeat", "REBALANCE_IN_PROGRESS")

    @property
    def ended_at_ms(self) -> int:
        """The latest known time of the exchange: arrival of the request, sending of the response, or its receipt."""
        return max(self.last_at_ms, self.answered_at_ms or 0, self.received_at_ms or 0)


NOT_KEPT: Final = "not kept"
"""Stands for the error code in a response of which only the begin was recorded."""


class ViewSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A time during which a simulated member believed that it owned the same partitions, one or more."""

    member_id: MemberId
    """The id under which it had last joined."""
    client_id: str
    partitions: tuple[TopicPartition, ...]
    began: Point
    """With the position of the last event at that time."""
    ended: Point | None = None
    """None if it believed so until the end."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which kinds of facts beside the events were recorded for a group."""

    exchanges: bool = False
    """Requests and responses, at least of a part of the history: refused ones, and when a member was last seen."""
    network: bool = False
    """What the network did to each message."""
    views: bool = False
    """What members believed they owned."""
    reads: bool = False
    """Which records members read again."""
    processes: tuple[tuple[int, int | None], ...] = ()
    """Each process of the coordinators: the epoch with which it began, and from when on its exchanges were recorded, in
    epoch milliseconds; 0 if they were from its begin, and None if they were not."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The kinds of facts that were not recorded, as English words such as `session clocks`."""
        parts = (
            (self.exchanges, "session clocks"),
            (self.network, "lost messages"),
            (self.exchanges, "refused requests"),
            (self.views, "the members' own views"),
        )
        return tuple(words for is_there, words in parts if not is_there)

    def is_complete(self, coordinator_epoch: int, since_ms: int) -> bool:
        """Whether the coordinator process of this epoch has recorded all requests from `since_ms` on."""
        begun = [each for each in self.processes if each[0] <= coordinator_epoch]
        recorded_since_ms = max(begun)[1] if begun else None
        return recorded_since_ms is not None and recorded_since_ms <= since_ms
