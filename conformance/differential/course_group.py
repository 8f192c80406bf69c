"""One group of a random course: its members, what each client would send next, and the state observed last."""

from dataclasses import dataclass, field
from enum import StrEnum

from regroup.conformance.differential.random_course import CourseActor
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.message import Message
from regroup.protocol.messages.group import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import OffsetCommitResponse


class ClientPhase(StrEnum):
    """What a client that follows the protocol has to do next in its group."""

    OUTSIDE = "outside"
    """The client is not a member. It joins when the course lets it take part."""
    JOINS = "joins"
    """The client has to send JoinGroup."""
    SYNCS = "syncs"
    """The client has to send SyncGroup."""
    WORKS = "works"
    """The client has its assignment: it sends heartbeats and commits offsets."""


@dataclass(eq=False)
class CourseMember:
    """One actor of a course as a client in one group: its ids, and which request it has to send next."""

    actor: int
    client: ConformanceMember
    phase: ClientPhase = ClientPhase.OUTSIDE
    pending: int = 0
    """How many requests of this client have no response yet."""

    @property
    def is_leader(self) -> bool:
        """Whether the client is the leader of the generation that it joined last."""
        return bool(self.client.id) and self._leader_id == self.client.id

    _leader_id: str = field(default="", init=False)

    def apply(self, response: Message | BaseException) -> None:
        """Change the client's phase, member id and generation as a response to one of its requests says."""
        match response:
            case JoinGroupResponse(error_code=E.NONE):
                self.phase, self._leader_id = ClientPhase.SYNCS, response.leader
                self.client.apply_join_response(response)
            case JoinGroupResponse(error_code=E.MEMBER_ID_REQUIRED):
                self.phase = ClientPhase.JOINS
                self.client.apply_join_response(response)
            case SyncGroupResponse(error_code=E.NONE):
                self.phase = ClientPhase.WORKS
            case LeaveGroupResponse(error_code=E.NONE):
                self._forget_member_id()
            case JoinGroupResponse() | SyncGroupResponse() | HeartbeatResponse():
                self._apply_error(response.error_code)
            case OffsetCommitResponse(topics=[topic, *_]) if topic.partitions:
                self._apply_error(topic.partitions[0].error_code)

    def _apply_error(self, error: int) -> None:
        match error:
            case E.REBALANCE_IN_PROGRESS | E.ILLEGAL_GENERATION:
                self.phase = ClientPhase.JOINS
            case E.UNKNOWN_MEMBER_ID | E.FENCED_INSTANCE_ID:
                self._forget_member_id()

    def _forget_member_id(self) -> None:
        self.phase, self.client.id = ClientPhase.OUTSIDE, ""


@dataclass(eq=False)
class CourseGroup:
    """One group: its connection to the broker, its members, and its state as DescribeGroups returned it last."""

    story: StoryContext
    name: str
    members: list[CourseMember]
    state: str = "Dead"
    is_of_consumers: bool = False
    """Whether it is a consumer group with members, as ConsumerGroupDescribe returned it last."""

    @classmethod
    def with_actors(cls, story: StoryContext, name: str, actors: tuple[CourseActor, ...]) -> "CourseGroup":
        """Make a group in which every actor is a client that has not joined."""
        clients = [client_of(story, name, actor) for actor in actors]
        return cls(story, name, [CourseMember(number, client) for number, client in enumerate(clients)])

    def next_client(self, first: int) -> tuple[CourseMember, ClientPhase] | None:
        """A client that has something to do in the observed state, and what; the search begins with actor `first`.

        None if every client waits for a response, or has nothing to do.
        """
        idle = [each for each in self.members[first:] + self.members[:first] if not each.pending]
        match self.state:
            case "PreparingRebalance":
                candidates = [each for each in idle if each.phase is not ClientPhase.OUTSIDE]
                return (candidates[0], ClientPhase.JOINS) if candidates else None
            case "CompletingRebalance":
                syncing = [each for each in idle if each.phase is ClientPhase.SYNCS]
                syncing.sort(key=lambda each: not each.is_leader)
                if syncing:
                    return syncing[0], ClientPhase.SYNCS
        joining = [each for each in idle if each.phase in (ClientPhase.JOINS, ClientPhase.SYNCS)]
        if joining:
            return joining[0], joining[0].phase
        return (idle[0], idle[0].phase) if idle else None


def client_of(story: StoryContext, group_name: str, actor: CourseActor) -> ConformanceMember:
    """Make the client by which an actor of a course sends requests to this group."""
    return ConformanceMember(
        story,
        f"{group_name} {actor.name}",
        instance_id=actor.instance_id,
        session_timeout_ms=actor.session_timeout_ms,
        rebalance_timeout_ms=actor.rebalance_timeout_ms,
    )
