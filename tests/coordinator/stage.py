"""One group on a virtual clock: `decide` and `next_deadline` alone, no event loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.classic.deadlines import deadlines, next_deadline
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.decide import decide
from regroup.coordinator.events import Event
from regroup.coordinator.evolve import fold
from regroup.coordinator.group import Group, State
from regroup.coordinator.runtime.pending_responses import Request as Waiter
from regroup.coordinator.runtime.pending_responses import WaitingRoom
from regroup.coordinator.settings import Settings
from regroup.coordinator.unavailable import unavailable
from regroup.protocol.errors import ErrorCode

NOW = 1_700_000_000_000
GROUP = "payments"


@dataclass
class Request:
    """One request, and what became of it."""

    command: c.Command
    on_answer: Callable[[Any], None]
    stage: "Stage"
    events: tuple[Event, ...] = ()
    """What happened because of it, at once."""
    answer: Any = None
    answered_at_ms: int | None = None

    def take(self, message: Any) -> None:
        self.answer, self.answered_at_ms = message, self.stage.now_ms
        self.on_answer(message)

    @property
    def is_parked(self) -> bool:
        """It has no answer yet."""
        return self.answer is None

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(self.answer.error_code)

    @property
    def rows(self) -> dict[tuple[str, int], Any]:
        """By topic and partition, of an answer about offsets."""
        return {(topic.name, row.partition_index): row for topic in self.answer.topics for row in topic.partitions}

    @property
    def codes(self) -> dict[tuple[str, int], ErrorCode]:
        """The same, and of each row its code."""
        return {partition: ErrorCode(row.error_code) for partition, row in self.rows.items()}

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """The same of an answer to OffsetFetch, and of each row its offset."""
        return {partition: row.committed_offset for partition, row in self.rows.items()}

    @property
    def event_names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


class Stage:
    """The group, who waits in it, and the time. Settings by their field names."""

    def __init__(self, **settings: int) -> None:
        self.settings = Settings(**settings)
        self.now_ms = NOW
        self.group = Group(name=GROUP)
        self.heard: dict[str, int] = {}
        self.history: list[Event] = []
        self.log_holds_back = False
        """Kafka's own log writes records and does not commit them, until it is told to."""
        self._waiting = WaitingRoom()

    # What is

    @property
    def state(self) -> State:
        return self.group.state

    @property
    def generation(self) -> int:
        return self.group.generation

    @property
    def members(self) -> list[str]:
        return list(self.group.members)

    def ms_left(self, kind: DeadlineKind, member: str = "") -> int | None:
        """How long until this patience ends; None if no such timer runs."""
        for deadline in deadlines(self.group, self.heard):
            if (deadline.kind, deadline.member) == (kind, member):
                return deadline.at_ms - self.now_ms
        return None

    # What happens

    def tell(self, command: c.Command, on_answer: Callable[[Any], None] = lambda answer: None) -> Request:
        """Let the group decide, as the asyncio coordinator would with a disk that takes no time."""
        command = replace(command, log_holds_back=self.log_holds_back)
        request = Request(command, on_answer, self)
        decision = decide(self.settings, self.group, command)
        assert decision.group == fold(self.group, decision.events), "a decision is what its events add up to"
        self.group = decision.group
        self.history += decision.events
        self.heard.update(dict.fromkeys(decision.heard, self.now_ms))
        self.heard = {name: at_ms for name, at_ms in self.heard.items() if name in self.group.members}
        request.events = decision.events
        if not self._waiting.keeps(decision, Waiter(command, request.take)) and decision.answer is not None:
            request.take(decision.answer)
        for (_, answering), message in self._waiting.released_by(decision):
            answering(message)
        return request

    def passes_in_silence(self, end_ms: int) -> None:
        """Until then nobody says a word; deadlines pass."""
        while (deadline := next_deadline(self.group, self.heard)) and deadline.at_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline.at_ms)
            self.tell(
                c.DeadlinePassed(
                    group_id=GROUP,
                    at_ms=self.now_ms,
                    kind=deadline.kind,
                    member=deadline.member,
                    last_heard_ms=deadline.last_heard_ms,
                )
            )
        self.now_ms = end_ms

    def fails_over(self, **settings: int) -> list[Event]:
        """Another coordinator, perhaps with other settings, takes the group over from Kafka's own log."""
        if settings:
            self.settings = Settings(**settings)
        for command, answering in self._waiting.empty():
            answering(unavailable(command, ErrorCode.NOT_COORDINATOR))
        return list(self.tell(c.TakeOver(group_id=GROUP, at_ms=self.now_ms)).events)
