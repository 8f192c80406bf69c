"""Faults that a simulated member can have, as values and as text. Several faults of one member compose.

    pause:20s               stops for 20 s, as in a long garbage collection, then goes on where it stopped
    crash                   stops for good; its connections stay open
    leave                   closes its consumer, which leaves the group
    zombie                  stops for twice its session timeout, then reads and commits with its old generation
    restart:5s              its process is killed and starts again after 5 s; a static member keeps its instance id
    restart-as-stranger:5s  the same without the instance id
    no-poll:60s             does not call poll() for 60 s, while its heartbeats go on
    slow-join:5s            is outside poll() for 5 s when a rebalance asks it to join
    slow-revoke:5s          takes 5 s to give partitions up; for members of the consumer protocol
    slow-sync:5s            sends SyncGroup 5 s late
    never-sync              never sends SyncGroup
    assignor-fails          its assignor raises an error when it is the leader
    assignor-forgets        when it is the leader, one member gets no assignment
    assignor-doubles        when it is the leader, one partition is assigned to two members

The trigger follows `@`: `crash@30s` after the start, `pause:20s@after-elected` as soon as the member is the leader,
`leave@after-assigned+5s`. Without a trigger a lasting fault begins at the start, any other one after 10 s.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from msgspec.structs import replace

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorError,
    AssignorMember,
    ClusterMetadata,
    LastAssignment,
)
from regroup.members.consumer.effects import (
    ConsumerChange,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.notation.durations import format_duration, parse_duration_ms
from regroup.protocol.consumer.subscription import Assignment, decode_assignment, encode_assignment
from regroup.protocol.message import Message
from regroup.protocol.messages.group import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["MemberMilestone", "FaultTrigger", "MemberFaultKind", "MemberFault", "parse_fault"]


class MemberMilestone(Enum):
    """A point in a member's group membership that can trigger a fault."""

    STARTED = "started"
    JOINED = "joined"
    ELECTED = "elected"
    """The member has become the leader, and has not sent SyncGroup yet."""
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"

    __hash__ = object.__hash__  # that of Enum is a function in Python


def milestones_in(change: ConsumerChange) -> tuple[MemberMilestone, ...]:
    """The milestones that a member reaches when its consumer reports this change."""
    match change:
        case JoinedGroup(is_leader=True):
            return (MemberMilestone.JOINED, MemberMilestone.ELECTED)
        case JoinedGroup():
            return (MemberMilestone.JOINED,)
        case PartitionsAssigned():
            return (MemberMilestone.ASSIGNED,)
        case PartitionsRevoked():
            return (MemberMilestone.REVOKED,)
        case PartitionsLost():
            return (MemberMilestone.LOST,)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class FaultTrigger:
    """When a fault starts: `delay_ms` after the member first reaches the milestone."""

    milestone: MemberMilestone = MemberMilestone.STARTED
    delay_ms: int = 0

    def __str__(self) -> str:
        delay = format_duration(self.delay_ms)
        if self.milestone is MemberMilestone.STARTED:
            return delay
        return f"after-{self.milestone.value}" + (f"+{delay}" if self.delay_ms else "")


class MemberFaultKind(Enum):
    """A kind of fault: its name in text, whether it lasts or happens once, and whether it takes a duration."""

    is_lasting: bool
    takes_duration: bool

    def __new__(cls, name: str, is_lasting: bool = False, takes_duration: bool = False) -> "MemberFaultKind":
        kind = object.__new__(cls)
        kind._value_ = name
        kind.is_lasting = is_lasting
        kind.takes_duration = takes_duration
        return kind

    CRASH = "crash"
    PAUSE = "pause", False, True
    LEAVE = "leave"
    ZOMBIE = "zombie"
    RESTART = "restart", False, True
    RESTART_AS_STRANGER = "restart-as-stranger", False, True
    NO_POLL = "no-poll", False, True
    SLOW_JOIN = "slow-join", True, True
    SLOW_REVOKE = "slow-revoke", True, True
    SLOW_SYNC = "slow-sync", True, True
    NEVER_SYNC = "never-sync", True
    ASSIGNOR_FAILS = "assignor-fails", True
    ASSIGNOR_FORGETS = "assignor-forgets", True
    ASSIGNOR_DOUBLES = "assignor-doubles", True


@dataclass(frozen=True, slots=True)
class MemberFault:
    """One fault of a member.

    `duration_ms` is for kinds that take a duration. Without a `trigger` the default of the kind applies.

    Raises ValueError for a duration that is missing, zero, or given to a kind that takes none.
    """

    kind: MemberFaultKind
    duration_ms: int | None = None
    trigger: FaultTrigger | None = None

    def __post_init__(self) -> None:
        name = self.kind.value
        if self.kind.takes_duration and (self.duration_ms is None or self.duration_ms <= 0):
            raise ValueError(f"{name} needs a duration above 0, for example {name}:20s")
        if not self.kind.takes_duration and self.duration_ms is not None:
            raise ValueError(f"{name} takes no duration; its trigger follows @, for example {name}@20s")

    @property
    def effective_trigger(self) -> FaultTrigger:
        """The trigger of the fault, or if it has none, the default of its kind."""
        return self.trigger or FaultTrigger(delay_ms=0 if self.kind.is_lasting else 10_000)

    def __str__(self) -> str:
        duration = "" if self.duration_ms is None else f":{format_duration(self.duration_ms)}"
        return f"{self.kind.value}{duration}" + ("" if self.trigger is None else f"@{self.trigger}")


def parse_fault(text: str) -> MemberFault:
    """Parse a fault such as `pause:20s@after-elected`; docs/members.md has the table of them.

    Raises ValueError for any other text, with what is wrong and what is possible.
    """
    what, at, trigger = text.partition("@")
    name, colon, duration = what.partition(":")
    kinds = {kind.value: kind for kind in MemberFaultKind}
    if name not in kinds:
        raise ValueError(f"unknown fault {name!r}; use one of: {', '.join(kinds)}")
    duration_ms = parse_duration_ms(duration) if colon else None
    return MemberFault(kinds[name], duration_ms, _parse_trigger(trigger) if at else None)


def _parse_trigger(text: str) -> FaultTrigger:
    if not text.startswith("after-"):
        return FaultTrigger(delay_ms=parse_duration_ms(text))
    name, plus, delay = text.partition("+")
    milestones = {f"after-{milestone.value}": milestone for milestone in MemberMilestone}
    if name not in milestones:
        raise ValueError(f"unknown trigger {name!r}; use a duration or one of: {', '.join(milestones)}")
    return FaultTrigger(milestones[name], parse_duration_ms(delay) if plus else 0)


# -- faults of a leader's assignor


class FailingAssignor(Assignor):
    """An assignor that assigns as another one does, but raises AssignorError while `fails()` is true."""

    def __init__(self, real: Assignor, fails: Callable[[], bool]) -> None:
        self._real = real
        self._fails = fails
        self.name = real.name
        self.supported_protocols = real.supported_protocols

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        return self._real.subscription_user_data(topics, last)

    def on_assignment(self, assignment: Assignment, generation: int) -> LastAssignment:
        return self._real.on_assignment(assignment, generation)

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        if self._fails():
            raise AssignorError(f"the fault {MemberFaultKind.ASSIGNOR_FAILS.value} has begun")
        return self._real.assign(cluster, members)


def drop_last_assignment(message: Message) -> Message:
    """A leader's SyncGroup without the assignment of its last member. Any other request is returned unchanged."""
    if not isinstance(message, SyncGroupRequest) or not message.assignments:
        return message
    return replace(message, assignments=message.assignments[:-1])


def assign_one_partition_twice(message: Message) -> Message:
    """A leader's SyncGroup in which one member's first partition is assigned to the member after it as well.

    Any other request, and a SyncGroup without a second member, is returned unchanged.
    """
    if not isinstance(message, SyncGroupRequest):
        return message
    assignments = [(each.member_id, decode_assignment(each.assignment)) for each in message.assignments]
    owner = next((place for place, (_, assignment) in enumerate(assignments) if assignment.partitions), None)
    if owner is None or len(assignments) < 2:
        return message
    partition = assignments[owner][1].partitions[0]
    other = (owner + 1) % len(assignments)
    member_id, assignment = assignments[other]
    doubled = Assignment(assignment.version, (*assignment.partitions, partition), assignment.user_data)
    assignments[other] = member_id, doubled
    return replace(
        message,
        assignments=[
            SyncGroupRequestAssignment(member_id=each, assignment=encode_assignment(assigned))
            for each, assigned in assignments
        ],
    )
