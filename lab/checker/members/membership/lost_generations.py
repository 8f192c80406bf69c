"""Classic members whose coordinator has refused their generation: they lose their partitions before they join again.

generations = LostGenerations(paused=())
generations.on_change("ben", change)                 # ben has joined, has got, gives up or has lost partitions:
                                                     # the violation that this is, or None
generations.on_request("ben", message)               # ben sends a request: the violation that this is, or None
generations.on_response("ben", message, response)    # ben gets its response; None if there is none
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerError,
    JoinedGroup,
    LeftGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest

LOSES_ITS_PARTITIONS: Final = (
    "A classic member whose generation is refused, in a response to its Heartbeat, SyncGroup or OffsetCommit of that "
    "generation, reports its partitions as lost, not as revoked, and only then joins."
)
ENDS_A_GENERATION: Final = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
_TO_COORDINATOR: Final = (
    HeartbeatRequest,
    SyncGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    LeaveGroupRequest,
)
"""The requests, besides JoinGroup, that share the connection to the coordinator, and are lost with it."""


@dataclass(slots=True)
class _Member:
    """One process: its generation, its partitions, and its requests to the coordinator without a response."""

    generation: tuple[int, str] | None = None
    """The generation id and the member id of its last JoinGroup; None if it is known to have none."""
    is_classic: bool = False
    is_refused: bool = False
    """Whether its generation was refused, so that it has lost its partitions, and has not reported that yet."""
    partitions: set[TopicPartition] = field(default_factory=set)
    in_flight: set[int] = field(default_factory=set)
    """Identities of requests to the coordinator whose response the member waits for: what comes after that connection
    is lost it ignores."""


class LostGenerations:
    """The members of a run, by name. `paused` are those that pause, and handle no response."""

    def __init__(self, paused: Container[str]) -> None:
        self._paused = paused
        self._members: dict[str, _Member] = {}

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended, or by the plan it becomes a zombie."""
        self._members.pop(name, None)

    def on_change(self, name: str, change: ConsumerChange | ConsumerError) -> MemberViolation | None:
        """Note the generation and the partitions of a member, and check how it gives them up."""
        member = self._members.setdefault(name, _Member())
        match change:
            case JoinedGroup():
                member.generation = change.generation_id, change.member_id
            case LeftGroup():
                member.generation = None
            case PartitionsAssigned(partitions):
                member.partitions.update(partitions)
            case PartitionsLost(partitions):
                member.partitions.difference_update(partitions)
            case PartitionsRevoked(partitions):
                member.partitions.difference_update(partitions)
                if member.is_refused and partitions:
                    listed = ", ".join(map(str, partitions))
                    return MemberViolation(LOSES_ITS_PARTITIONS, f"{name} reports that it gives up {listed}")
        return None

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a JoinGroup: a member whose generation was refused owns nothing by then."""
        member = self._members.setdefault(name, _Member())
        if isinstance(message, _TO_COORDINATOR):
            member.in_flight.add(id(message))
        if not isinstance(message, JoinGroupRequest):
            return None
        # What is refused from now on comes too late for this JoinGroup, and may be known to the member already.
        member.is_classic, member.generation = True, None
        is_refused, member.is_refused = member.is_refused, False
        if not is_refused or not member.partitions:
            return None
        listed = ", ".join(map(str, sorted(member.partitions)))
        return MemberViolation(LOSES_ITS_PARTITIONS, f"{name} joins again, and still owns {listed}")

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note whether a response refuses the present generation of a member; None for a request that has failed."""
        member = self._members.get(name)
        if member is None or id(message) not in member.in_flight:
            return
        member.in_flight.discard(id(message))
        if response is None:
            member.in_flight.clear()
        elif (
            member.is_classic
            and name not in self._paused
            and member.generation is not None
            and _generation_of(message) == member.generation
            and first_error_code(response) in ENDS_A_GENERATION
        ):
            member.is_refused, member.generation = True, None


def _generation_of(message: Message) -> tuple[int, str] | None:
    """The generation id and the member id that a request names; None if it names none that its response may refuse."""
    match message:
        case HeartbeatRequest() | SyncGroupRequest():
            return message.generation_id, message.member_id
        case OffsetCommitRequest():
            return message.generation_id_or_member_epoch, message.member_id
    return None
