"""Ways to misbehave, each a small value. Several on one member compose.

    pause:20s               falls silent for 20 seconds, as in a long garbage collection, then goes on as if nothing was
    crash                   falls silent for ever
    leave                   leaves politely
    zombie                  falls silent for twice its session timeout, and then goes on reading and committing with
                            its old generation, as if it still belonged to the group
    restart:5s              dies without a word and comes back 5 s later; a static member with its instance id
    restart-as-stranger:5s  the same, but without the instance id
    slow-join:5s            is not back in poll() for 5 s when a rebalance asks for it
    slow-sync:5s            sends SyncGroup 5 s late
    never-sync              never sends SyncGroup
    assignor-fails          its assignor raises when it leads
    assignor-forgets        when it leads, one member gets no entry in the assignment
    assignor-doubles        when it leads, one partition goes to two members

Behind `@` stands when it begins: `crash@30s` after the start, `pause:20s@after-elected` as soon as the member leads,
`leave@after-assigned+5s`. What happens once begins 10 s after the start, what lasts begins at the start, unless told
otherwise.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from msgspec.structs import replace

from regroup.assignors.interface import Assignments, Assignor, AssignorError, Cluster, LastAssignment, Member
from regroup.members.consumer.effects import Change, JoinedGroup, PartitionsAssigned, PartitionsLost, PartitionsRevoked
from regroup.protocol.consumer.subscription import Assignment, decode_assignment, encode_assignment
from regroup.protocol.message import Message
from regroup.protocol.messages.group import SyncGroupRequest, SyncGroupRequestAssignment


class Moment(Enum):
    """What a member can be waiting for before it misbehaves."""

    STARTED = "started"
    JOINED = "joined"
    ELECTED = "elected"
    """It leads, and SyncGroup is not sent yet."""
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


def moments_in(change: Change) -> tuple[Moment, ...]:
    """The moments that a change of the consumer is."""
    match change:
        case JoinedGroup(is_leader=True):
            return (Moment.JOINED, Moment.ELECTED)
        case JoinedGroup():
            return (Moment.JOINED,)
        case PartitionsAssigned():
            return (Moment.ASSIGNED,)
        case PartitionsRevoked():
            return (Moment.REVOKED,)
        case PartitionsLost():
            return (Moment.LOST,)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class When:
    """So long after the first time that this happens."""

    moment: Moment = Moment.STARTED
    after_ms: int = 0

    def __str__(self) -> str:
        after = duration_text(self.after_ms)
        if self.moment is Moment.STARTED:
            return after
        return f"after-{self.moment.value}" + (f"+{after}" if self.after_ms else "")


class Kind(Enum):
    """What a member does: its word in text, whether it lasts or happens once, and whether it takes a time."""

    lasts: bool
    takes_time: bool

    def __new__(cls, word: str, lasts: bool = False, takes_time: bool = False) -> "Kind":
        kind = object.__new__(cls)
        kind._value_ = word
        kind.lasts = lasts
        kind.takes_time = takes_time
        return kind

    CRASH = "crash"
    PAUSE = "pause", False, True
    LEAVE = "leave"
    ZOMBIE = "zombie"
    RESTART = "restart", False, True
    RESTART_AS_STRANGER = "restart-as-stranger", False, True
    SLOW_JOIN = "slow-join", True, True
    SLOW_SYNC = "slow-sync", True, True
    NEVER_SYNC = "never-sync", True
    ASSIGNOR_FAILS = "assignor-fails", True
    ASSIGNOR_FORGETS = "assignor-forgets", True
    ASSIGNOR_DOUBLES = "assignor-doubles", True


@dataclass(frozen=True, slots=True)
class Habit:
    """One way to misbehave. `milliseconds` for the kinds that take time; `when` None is the usual moment of its kind.

    Raises ValueError if a time is missing, or given where none belongs.
    """

    kind: Kind
    milliseconds: int | None = None
    when: When | None = None

    def __post_init__(self) -> None:
        if self.kind.takes_time and (self.milliseconds is None or self.milliseconds <= 0):
            raise ValueError(f"{self.kind.value} needs a time above 0, for example {self.kind.value}:20s")
        if not self.kind.takes_time and self.milliseconds is not None:
            raise ValueError(f"{self.kind.value} takes no time; when it begins stands behind @")

    @property
    def begins(self) -> When:
        """When it begins."""
        return self.when or (When() if self.kind.lasts else When(after_ms=10_000))

    def __str__(self) -> str:
        time = "" if self.milliseconds is None else f":{duration_text(self.milliseconds)}"
        return f"{self.kind.value}{time}" + ("" if self.when is None else f"@{self.when}")


# -- text

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def parse_duration_ms(text: str) -> int:
    """`500ms`, `20s`, `1.5m`, `1h`. ValueError for anything else."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no duration; write for example 500ms, 20s or 5m")
    return round(float(match[1]) * _UNIT_MS[match[2]])


def duration_text(milliseconds: int) -> str:
    """The shortest way to write a duration."""
    unit = next((unit for unit in ("h", "m", "s") if milliseconds and milliseconds % _UNIT_MS[unit] == 0), "ms")
    return f"{milliseconds // _UNIT_MS[unit]}{unit}"


def parse_habit(text: str) -> Habit:
    """A habit as in the table above. ValueError says what is wrong and what is possible."""
    what, at, when = text.partition("@")
    word, colon, time = what.partition(":")
    kinds = {kind.value: kind for kind in Kind}
    if word not in kinds:
        raise ValueError(f"there is no habit {word!r}; known are {', '.join(kinds)}")
    milliseconds = parse_duration_ms(time) if colon else None
    return Habit(kinds[word], milliseconds, _parse_when(when) if at else None)


def _parse_when(text: str) -> When:
    if not text.startswith("after-"):
        return When(after_ms=parse_duration_ms(text))
    name, plus, after = text.removeprefix("after-").partition("+")
    moments = {moment.value: moment for moment in Moment}
    if name not in moments:
        raise ValueError(f"after-{name} never happens; known are {', '.join(f'after-{known}' for known in moments)}")
    return When(moments[name], parse_duration_ms(after) if plus else 0)


# -- a leader whose assignor is no good


class FailingAssignor(Assignor):
    """Passes for the assignor it was made from until it has to deal while `fails()`."""

    def __init__(self, real: Assignor, fails: Callable[[], bool]) -> None:
        self._real = real
        self._fails = fails
        self.name = real.name
        self.supported_protocols = real.supported_protocols

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        return self._real.subscription_user_data(topics, last)

    def on_assignment(self, assignment: Assignment, generation: int) -> LastAssignment:
        return self._real.on_assignment(assignment, generation)

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        if self._fails():
            raise AssignorError("it was told to fail")
        return self._real.assign(cluster, members)


def forgetting(message: Message) -> Message:
    """The leader's SyncGroup without an entry for its last member."""
    if not isinstance(message, SyncGroupRequest) or not message.assignments:
        return message
    return replace(message, assignments=message.assignments[:-1])


def doubling(message: Message) -> Message:
    """The leader's SyncGroup with one partition of one member given to another member as well."""
    if not isinstance(message, SyncGroupRequest):
        return message
    shares = [(each.member_id, decode_assignment(each.assignment)) for each in message.assignments]
    donor = next((number for number, (_, share) in enumerate(shares) if share.partitions), None)
    if donor is None or len(shares) < 2:
        return message
    double = shares[donor][1].partitions[0]
    lucky = (donor + 1) % len(shares)
    member_id, share = shares[lucky]
    shares[lucky] = member_id, Assignment(share.version, (*share.partitions, double), share.user_data)
    return replace(
        message,
        assignments=[
            SyncGroupRequestAssignment(member_id=name, assignment=encode_assignment(given)) for name, given in shares
        ],
    )
