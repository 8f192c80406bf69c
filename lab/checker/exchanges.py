"""`ObservedExchange`: one command to a coordinator, the group before and after it, and what became of its response."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, cast

from regroup.coordinator.commands import Command
from regroup.coordinator.decision import ResponseKey
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.serialization import Cause
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure


class ExchangeOutcome(Enum):
    """What became of the response to a command: open, held, sent, or lost and why."""

    OPEN = "is being handled, or its response waits for the store or for Kafka's log"
    HELD = "is held: its response depends on other members"
    RESPONDED = "got a response"
    INTERNAL = "came from the coordinator itself and has no response"
    SUPERSEDED = "was sent again, and the later request took its place"
    MEMBER_REMOVED = "was the held SyncGroup of a member that was removed; as in Kafka, it gets no response"
    CONNECTION_LOST = "was lost with its connection"
    COORDINATOR_CRASHED = "was lost with its coordinator"


@dataclass(slots=True, eq=False)
class ObservedExchange:
    """A command, its group before and after it, and its response. Groups are values, so nothing is copied."""

    exchange_number: int
    """1, 2, 3 … over all coordinators of a run."""
    coordinator: GroupCoordinator
    coordinator_epoch: int
    command: Command
    before: Group
    refusal: ErrorCode | None
    """The error with which the coordinator answered every command at that time; None if it was serving."""
    cause: Cause | None
    """The reason for the command: a request, a deadline, or an action of the broker itself."""
    group_id: str = field(init=False)
    """The group that the command is for."""
    after: Group = field(init=False)
    """The group after the command; equal to `before` until the command has been handled."""
    is_final: bool = False
    """Whether `after` is final: later changes of the group come from other commands."""
    required_position: int = 0
    """Position of the group's last record when the response was decided: it must be durable before the response."""
    decided_group: Group = field(init=False)
    """The group when the response was decided; for a held request that is later than `after`."""
    after_log: tuple[Group, int] | None = None
    """The group and the position of its last record when Kafka's log had committed; None if that log is not delayed.

    A success waits for it; an error, or a member id in the response, waits for the store alone.
    """
    outcome: ExchangeOutcome = ExchangeOutcome.OPEN
    held_under: ResponseKey | None = None
    """The key under which the response was held, if it was."""
    response: Structure | None = None
    """The first response; None until it leaves."""
    error_code: int = 0
    """The error code with which that response refuses the request; 0 if at least a part of it was accepted."""
    response_count: int = 0
    durable_position: int = 0
    """Position of the last durable record of the store when the first response left."""

    def __post_init__(self) -> None:
        self.group_id = self.command.group_id
        self.after = self.decided_group = self.before

    def require(self, group: Group, position: int) -> None:
        """Note the group on which the response rests, and the position of its last record, which must be durable
        first."""
        self.decided_group = group
        self.required_position = max(self.required_position, position)

    @property
    def due_position(self) -> int:
        """The position that must be durable before the response leaves. As soon as it is, the response has to leave."""
        if self.after_log is None:
            return self.required_position
        return max(self.required_position, self.after_log[1])

    @property
    def received_ms(self) -> int:
        """Time when the command arrived, by the coordinator's clock."""
        return self.command.at_ms

    @property
    def is_open(self) -> bool:
        """Whether the exchange still waits for its response."""
        return self.outcome in (ExchangeOutcome.OPEN, ExchangeOutcome.HELD)

    def record_response(self, response: Structure, durable_position: int) -> None:
        """Keep the first response to the command as it leaves, its error code, and which position of the store is
        durable."""
        self.response, self.error_code = response, refusal_code(response)
        if self.after_log is not None and self.error_code == ErrorCode.NONE:
            self.require(*self.after_log)
        self.durable_position = durable_position

    @property
    def summary(self) -> str:
        """The request and its response in one sentence, in Kafka's terms."""
        command: Any = self.command
        who = getattr(command, "member_id", "") or getattr(command, "new_member_id", "")
        generation_id = getattr(command, "generation_id", None)
        named = f" for generation {generation_id}" if generation_id is not None else ""
        response = (
            "had no response yet" if self.response is None else f"was answered {ErrorCode.name_of(self.error_code)}"
        )
        before = self.before
        return (
            f"{type(command).__name__}{f' of {who}' if who else ''}{named} to group {self.group_id}, which was "
            f"{before.state} in generation {before.generation_id} with {len(before.members)} member(s), {response}."
        )

    def __str__(self) -> str:
        response = "no response" if self.response is None else f"{type(self.response).__name__} {self.response}"
        return (
            f"{type(self.command).__name__} number {self.exchange_number} to {self.group_id!r} in {self.before.state}, "
            f"generation {self.before.generation_id}, coordinator epoch {self.coordinator_epoch}: "
            f"{self.command} got {response}"
        )


def first_error_code(response: Any) -> int:
    """The first error code in a response, that of the whole or of a part; 0 if there is none.

    A client that gets the error of one partition takes it for that of its commit.
    """
    code: int | None = getattr(response, "error_code", None)
    if code is not None and (code or not _has_parts(cast(Hashable, type(response)))):
        return code
    return next(filter(None, _codes_in(response)), 0)


@cache
def _has_parts(kind: Hashable) -> bool:
    """Whether responses of this type have error codes of their parts."""
    return any(hasattr(kind, name) for name in ("coordinators", "groups", "topics"))


def refusal_code(response: Any) -> int:
    """The error code with which a coordinator refuses a request; 0 if it has accepted one of the offsets of a
    commit."""
    code: int | None = getattr(response, "error_code", None)
    if code is not None:
        return code
    codes = _codes_in(response)
    return 0 if 0 in codes else next(iter(codes), 0)


def _codes_in(response: Any) -> list[int]:
    rows = [*getattr(response, "coordinators", ()), *getattr(response, "groups", ())]
    rows += [row for topic in getattr(response, "topics", ()) for row in getattr(topic, "partitions", ())]
    return [each.error_code for each in (response, *rows) if hasattr(each, "error_code")]
