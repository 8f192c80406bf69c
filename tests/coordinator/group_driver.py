"""Drives one group with `decide` and `next_deadline` alone, on a virtual clock and without an event loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.decide import decide
from regroup.coordinator.events import Event
from regroup.coordinator.evolve import fold
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.runtime.deadlines import deadlines, next_deadline
from regroup.coordinator.runtime.pending_responses import PendingRequest, PendingResponses
from regroup.coordinator.runtime.unavailable import unavailable_response
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.topics import NO_TOPICS
from regroup.protocol.errors import ErrorCode

START_MS = 1_700_000_000_000
GROUP_ID = "payments"


@dataclass
class SentRequest:
    """A request, the events that it caused at once, and its response when there is one."""

    command: c.Command
    on_response: Callable[[Any], None]
    driver: "GroupDriver"
    events: tuple[Event, ...] = ()
    response: Any = None
    responded_at_ms: int | None = None

    def receive(self, response: Any) -> None:
        assert response is not None
        self.response, self.responded_at_ms = response, self.driver.now_ms
        self.on_response(response)

    @property
    def is_pending(self) -> bool:
        return self.response is None

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)

    @property
    def partitions(self) -> dict[tuple[str, int], Any]:
        """The partitions of a response about offsets, by topic and index."""
        return {(topic.name, each.partition_index): each for topic in self.response.topics for each in topic.partitions}

    @property
    def codes(self) -> dict[tuple[str, int], ErrorCode]:
        """The error code of each partition."""
        return {key: ErrorCode(partition.error_code) for key, partition in self.partitions.items()}

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """The committed offset of each partition of an OffsetFetch response."""
        return {key: partition.committed_offset for key, partition in self.partitions.items()}

    @property
    def event_types(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


class GroupDriver:
    """One group, its held requests and its clock. Takes the coordinator's settings by their field names."""

    def __init__(self, **settings: Any) -> None:
        self.settings = CoordinatorSettings(**settings)
        self.now_ms = START_MS
        self.group = Group(group_id=GROUP_ID)
        self.last_seen_ms: dict[str, int] = {}
        self.events: list[Event] = []
        """Every event since the start."""
        self.log_delays_appends = False
        """The emulated Kafka log writes records, and commits or fails them only on request."""
        self.topics = NO_TOPICS
        """The topics of the cluster, which a real coordinator is told with each command that may need them."""
        self._pending = PendingResponses()

    @property
    def state(self) -> GroupState:
        return self.group.state

    @property
    def generation_id(self) -> int:
        return self.group.generation_id

    @property
    def member_ids(self) -> list[str]:
        return list(self.group.members)

    def remaining_ms(self, kind: DeadlineKind, member_id: str = "") -> int | None:
        """Time until this deadline; None if the group has no such deadline."""
        for deadline in deadlines(self.group, self.last_seen_ms):
            if (deadline.kind, deadline.member_id) == (kind, member_id):
                return deadline.at_ms - self.now_ms
        return None

    def handle(self, command: c.Command, on_response: Callable[[Any], None] = lambda response: None) -> SentRequest:
        """Decide a command, as the asyncio coordinator would over a store that is always durable at once."""
        command = replace(command, delays_append=self.log_delays_appends)
        request = SentRequest(command, on_response, self)
        decision = decide(self.settings, self.group, command)
        assert decision.group == fold(self.group, decision.events), "a decision's group is the fold of its events"
        self.group = decision.group
        self.events += decision.events
        self.last_seen_ms.update(dict.fromkeys(decision.touched_sessions, self.now_ms))
        self.last_seen_ms = {each: at_ms for each, at_ms in self.last_seen_ms.items() if each in self.group.member_ids}
        request.events = decision.events
        is_held = self._pending.hold(decision, PendingRequest(command, request.receive))
        if not is_held and decision.response is not None:
            request.receive(decision.response)
        for (_, receive), response in self._pending.release(decision):
            receive(response)
        return request

    def advance_to(self, end_ms: int) -> None:
        """Move the clock; deadlines pass on the way, and no request is sent."""
        while (deadline := next_deadline(self.group, self.last_seen_ms)) and deadline.at_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline.at_ms)
            self.handle(
                c.DeadlinePassed(
                    group_id=GROUP_ID,
                    at_ms=self.now_ms,
                    kind=deadline.kind,
                    member_id=deadline.member_id,
                    last_seen_ms=deadline.last_seen_ms,
                    topics=self.topics,
                )
            )
        self.now_ms = end_ms

    def fail_over(self, **settings: int) -> list[Event]:
        """Load the group in another coordinator, perhaps with other settings, and return the events of the load."""
        if settings:
            self.settings = CoordinatorSettings(**settings)
        for command, receive in self._pending.drain():
            receive(unavailable_response(command, ErrorCode.NOT_COORDINATOR))
        return list(self.handle(c.LoadGroup(group_id=GROUP_ID, at_ms=self.now_ms)).events)
