"""What members do with assignments: what their assignors remember, when they take partitions, and which they commit.

assignments = Assignments()
assignments.on_response("anna", message, response)   # anna gets an assignment; None if there is no response
assignments.on_change("anna", change)                # she takes it: the violation that this is, or None
assignments.on_request("anna", message)              # what she says of it when she joins: the violation, or None
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.commits import CommitOffsets, offsets_of
from regroup.lab.checker.members.member_invariants import COOPERATIVE_PROTOCOL, STICKY_PROTOCOL, MemberViolation
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerError,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.protocol.consumer.sticky_user_data import (
    decode_cooperative_sticky_user_data,
    decode_sticky_user_data,
)
from regroup.protocol.consumer.subscription import (
    NO_GENERATION,
    MalformedConsumerProtocol,
    TopicPartition,
    decode_assignment,
    decode_subscription,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import JoinGroupRequest, SyncGroupRequest, SyncGroupResponse
from regroup.protocol.messages.offsets import OffsetCommitRequest

REMEMBERS_ITS_ASSIGNMENT: Final = (
    "The user data of a sticky assignor have the generation in which the member took its last assignment with this "
    "assignor, and those of `sticky` the partitions of it."
)
TAKES_NOTHING_IN_FLIGHT: Final = (
    "A member of the consumer protocol takes new partitions only while none of its heartbeats is in flight."
)
COMMITS_WHAT_IT_OWNS: Final = (
    "A member commits nothing of partitions that it has revoked or lost, unless the commit may have waited: for the "
    "coordinator, for which the member has looked since, or in the consumer protocol for its repetition after an "
    "error that may be temporary."
)
ASSIGNMENT_SENTENCES: Final = (REMEMBERS_ITS_ASSIGNMENT, TAKES_NOTHING_IN_FLIGHT, COMMITS_WHAT_IT_OWNS)
TEMPORARY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The errors after which a member of the consumer protocol repeats the commit before it gives up partitions."""


@dataclass(frozen=True, slots=True)
class _Assignment:
    """An assignment that a member got, and the generation in which it did."""

    generation_id: int = NO_GENERATION
    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(slots=True)
class _Member:
    """One process: what it was assigned, and its heartbeats without a response."""

    protocol_name: str = ""
    """The assignor of its last generation."""
    synced: _Assignment = _Assignment()
    """The assignment in its last SyncGroup response, which it may not have taken yet."""
    taken: dict[str, _Assignment] = field(default_factory=dict)
    """By the name of an assignor, the last assignment that the member has taken."""
    heartbeats: set[int] = field(default_factory=set)
    """Identities of its heartbeats of the consumer protocol that are in flight."""
    given_up: set[TopicPartition] = field(default_factory=set)
    """Partitions that it has revoked or lost since it looked for its coordinator, and does not own again."""
    commits: set[int] = field(default_factory=set)
    """Identities of its commits that are in flight, if it is a member of the consumer protocol."""
    refused: set[CommitOffsets] = field(default_factory=set)
    """Commits that have failed since it was last assigned their partitions, each of which it may repeat once."""
    uses_consumer_protocol: bool = False


class Assignments:
    """The members of a run, by name, with their assignments."""

    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended."""
        self._members.pop(name, None)

    def on_zombie(self, name: str) -> None:
        """Forget which partitions a member has given up, and its heartbeats: by the plan it becomes a zombie.

        It commits for its old generation from now on, and a JoinGroup that it has begun names its last assignment.
        """
        member = self._members.setdefault(name, _Member())
        member.heartbeats.clear()
        member.given_up.clear()

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note the assignment that a classic member gets, and that a heartbeat is not in flight any more."""
        member = self._members.setdefault(name, _Member())
        if isinstance(message, ConsumerGroupHeartbeatRequest):
            member.heartbeats.discard(id(message))
        elif isinstance(message, OffsetCommitRequest):
            if id(message) in member.commits and (response is None or first_error_code(response) in TEMPORARY):
                member.refused.add(offsets_of(message))
            member.commits.discard(id(message))
        elif (
            isinstance(message, SyncGroupRequest)
            and isinstance(response, SyncGroupResponse)
            and not response.error_code
            and (partitions := _partitions_in(response.assignment)) is not None
        ):
            member.synced = _Assignment(message.generation_id, partitions)

    def on_change(self, name: str, change: ConsumerChange | ConsumerError) -> MemberViolation | None:
        """Note that a member takes an assignment, and check that one of the consumer protocol may."""
        member = self._members.setdefault(name, _Member())
        match change:
            case JoinedGroup():
                member.protocol_name = change.protocol_name or ""
            case PartitionsAssigned(partitions):
                member.taken[member.protocol_name] = member.synced
                member.given_up.difference_update(partitions)
                member.refused = {each for each in member.refused if not _is_assigned_again(each, partitions, member)}
                if member.heartbeats and partitions:
                    listed = ", ".join(map(str, partitions))
                    return MemberViolation(TAKES_NOTHING_IN_FLIGHT, f"{name} takes {listed} during a heartbeat")
            case PartitionsRevoked(partitions) | PartitionsLost(partitions):
                member.given_up.update(partitions)
        return None

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check the user data in a JoinGroup and the partitions of a commit, and note a heartbeat of the consumer
        protocol."""
        member = self._members.setdefault(name, _Member())
        match message:
            case ConsumerGroupHeartbeatRequest():
                member.uses_consumer_protocol = True
                member.heartbeats.add(id(message))
            case FindCoordinatorRequest():
                member.given_up.clear()
            case OffsetCommitRequest():
                offsets = offsets_of(message)
                if member.uses_consumer_protocol:
                    member.commits.add(id(message))
                if offsets in member.refused:  # a repetition, which may have waited for the end of its backoff
                    member.refused.remove(offsets)
                elif found := sorted({partition for partition, _ in offsets} & member.given_up):
                    listed = ", ".join(map(str, found))
                    return MemberViolation(COMMITS_WHAT_IT_OWNS, f"{name} commits {listed}, and has given that up")
            case JoinGroupRequest():
                said = ((each.name, each.metadata) for each in message.protocols)
                for detail in _misremembered(said, member.taken):
                    return MemberViolation(REMEMBERS_ITS_ASSIGNMENT, f"{name} joins: {detail}")
        return None


def _is_assigned_again(commit: CommitOffsets, assigned: Iterable[TopicPartition], member: _Member) -> bool:
    """Whether all partitions of a commit that the member had given up are its own again, some of them now."""
    committed = {partition for partition, _ in commit}
    return not committed.isdisjoint(assigned) and committed.isdisjoint(member.given_up)


def _misremembered(said: Iterable[tuple[str, bytes]], taken: dict[str, _Assignment]) -> Iterable[str]:
    """What the user data of sticky assignors say that is not so, by the name and the metadata of each protocol."""
    for protocol_name, metadata in said:
        if protocol_name not in (STICKY_PROTOCOL, COOPERATIVE_PROTOCOL):
            continue
        data, last = decode_subscription(metadata).user_data, taken.get(protocol_name, _Assignment())
        if data is None:
            generation_id, partitions = NO_GENERATION, frozenset[TopicPartition]()
        elif protocol_name == COOPERATIVE_PROTOCOL:
            generation_id, partitions = decode_cooperative_sticky_user_data(data), last.partitions
        else:
            decoded = decode_sticky_user_data(data)
            partitions = frozenset(decoded.partitions)
            generation_id = last.generation_id if decoded.generation is None else decoded.generation
        if generation_id != last.generation_id:
            yield f"{protocol_name} has generation {generation_id}, and the assignment is of {last.generation_id}"
        elif partitions != last.partitions:
            listed = ", ".join(map(str, sorted(partitions ^ last.partitions)))
            yield f"{protocol_name} and the assignment of generation {last.generation_id} differ in {listed}"


def _partitions_in(assignment: bytes) -> frozenset[TopicPartition] | None:
    """The partitions of an encoded assignment; None if it cannot be read."""
    try:
        return frozenset(decode_assignment(assignment).partitions)
    except MalformedConsumerProtocol:
        return None
