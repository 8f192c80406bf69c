"""A client of a random course that speaks the consumer protocol, or the classic one in a group that migrates."""

from dataclasses import dataclass, field

from regroup.conformance.differential.course_group import ClientPhase, CourseGroup, CourseMember, client_of
from regroup.conformance.differential.random_course import CourseActor
from regroup.conformance.harness.consumer_group import ConsumerProtocolGroup, PartitionsByTopic
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.consumer.subscription import assigned_partitions
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.group import LeaveGroupResponse, SyncGroupResponse
from regroup.protocol.messages.offsets import OffsetCommitResponse

NOTHING: PartitionsByTopic = {}
JOIN_AGAIN = (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.FENCED_INSTANCE_ID, E.GROUP_ID_NOT_FOUND)
AWAY_EPOCH = -2


@dataclass(eq=False)
class CourseConsumer(CourseMember):
    """One actor of the course as a client in one group. It makes its own member id, which is the same on both brokers.

    `generation_id` of its client is its member epoch, too.
    """

    group: ConsumerProtocolGroup | None = None
    own_id: str = ""
    is_classic: bool = False
    owned: PartitionsByTopic = field(default_factory=dict)
    previous: tuple[int, PartitionsByTopic] = (0, NOTHING)
    """The epoch and the partitions that it had before the last change."""

    def __post_init__(self) -> None:
        self._begin_anew()

    @property
    def epoch(self) -> int:
        """The member epoch; 0 for a client that has to join."""
        return max(0, self.client.generation_id)

    def cross_over(self) -> None:
        """Speak the other protocol from now on."""
        self.is_classic = not self.is_classic
        self.phase = ClientPhase.JOINS if self.is_classic else ClientPhase.OUTSIDE
        self.client.generation_id, self.owned = 0, {}

    def apply(self, response: Message | BaseException) -> None:
        """Change the client's state as a response to one of its requests says."""
        match response:
            case ConsumerGroupHeartbeatResponse():
                self._apply_heartbeat(response)
            case LeaveGroupResponse(error_code=E.NONE):
                self._begin_anew()
            case OffsetCommitResponse() if not self.is_classic:
                pass
            case _:
                super().apply(response)
                if isinstance(response, SyncGroupResponse) and response.error_code == E.NONE:
                    self.owned = partitions_in(response)
                if self.is_classic and self.phase is ClientPhase.OUTSIDE:
                    self._begin_anew()
        self.client.id = self.own_id

    def _apply_heartbeat(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code in JOIN_AGAIN or (response.error_code == E.NONE and response.member_epoch < 0):
            self._begin_anew()
        elif response.error_code == E.NONE:
            assert self.group is not None
            self.is_classic = False
            self.previous = self.epoch, self.owned
            self.client.generation_id = response.member_epoch
            assignment = self.group.named(response).assignment
            self.owned = self.owned if assignment is None else assignment

    def _begin_anew(self) -> None:
        self.is_classic, self.phase = False, ClientPhase.OUTSIDE
        self.client.id, self.client.generation_id = self.own_id, 0
        self.owned = {}


async def group_of_consumers(
    story: StoryContext, name: str, actors: tuple[CourseActor, ...], assignment_interval_ms: int
) -> CourseGroup:
    """Make a group in which every actor is a client that has not joined; its member ids begin with the group's name."""
    group = await ConsumerProtocolGroup.begin(story, assignment_interval_ms=assignment_interval_ms)
    members: list[CourseMember] = [
        CourseConsumer(number, client_of(story, name, actor), group=group, own_id=f"{name[-1]}-{number}")
        for number, actor in enumerate(actors)
    ]
    return CourseGroup(story, name, members)


def partitions_in(response: SyncGroupResponse) -> PartitionsByTopic:
    """The partitions that a SyncGroup response assigns."""
    named: dict[str, list[int]] = {}
    for topic, number in assigned_partitions(response.assignment):
        named.setdefault(topic, []).append(number)
    return named
