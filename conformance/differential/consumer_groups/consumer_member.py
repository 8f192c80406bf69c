"""A client of a random course that speaks the consumer protocol or, as long as its group migrates, the classic one."""

from dataclasses import dataclass, field

from regroup.conformance.differential.course_group import ClientPhase, CourseGroup, CourseMember, client_of
from regroup.conformance.differential.random_course import RandomCourse
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
LIVES = 30
"""How many processes a client has at most in a course, one after the other."""


@dataclass(eq=False)
class CourseConsumer(CourseMember):
    """One actor of a course as a client in one group. When its process ends, a new one takes its place.

    As a member of the consumer protocol it makes its own member id, which is the same on both brokers; as a classic one
    it keeps that id or asks the broker for another. `generation_id` of its client is its member epoch, too.
    """

    group: ConsumerProtocolGroup | None = None
    own_id: str = ""
    is_classic: bool = False
    owned: PartitionsByTopic = field(default_factory=dict)
    previous: tuple[int, PartitionsByTopic] = (0, NOTHING)
    """The epoch and the partitions that it had before the last change."""
    life: int = 0
    """The number of its process."""
    crosses_to: bool | None = None
    """Whether its next process is a classic one; None if it speaks the same protocol."""

    def __post_init__(self) -> None:
        self._base_id = self.own_id
        self._forget()

    @property
    def epoch(self) -> int:
        """The member epoch; 0 for a client that has to join."""
        return max(0, self.client.generation_id)

    @property
    def has_joined(self) -> bool:
        """Whether the client has joined and, by the responses that it has got, is still a member."""
        return bool(self.client.id) if self.is_classic else bool(self.epoch)

    @property
    def own_ids(self) -> list[str]:
        """The member ids that this client makes: one for each of its possible processes."""
        return [self._id_of_life(life) for life in range(LIVES)]

    def _id_of_life(self, life: int) -> str:
        return f"{self._base_id}.{life}" if life else self._base_id

    def cross_over(self) -> None:
        """Change the client to the other protocol, classic or consumer: it has to join again, with the same member
        id."""
        self.is_classic = not self.is_classic
        self.own_id = self.client.id or self.own_id
        self.phase = ClientPhase.JOINS if self.is_classic else ClientPhase.OUTSIDE
        self.client.generation_id, self.owned = 0, {}

    def start_again(self, *, is_classic: bool | None = None) -> None:
        """Replace the client's process by a new one with another member id, which has to join.

        `is_classic` is whether the new one uses the classic protocol; None for the protocol of the former one.
        """
        self.is_classic = self.is_classic if is_classic is None else is_classic
        self.life = min(self.life + 1, LIVES - 1)
        self.own_id, self.crosses_to = self._id_of_life(self.life), None
        self._forget()

    def apply(self, response: Message | BaseException) -> None:
        """Change the client's epoch, partitions, member id and phase as a response to one of its requests says."""
        match response:
            case ConsumerGroupHeartbeatResponse():
                self._apply_heartbeat(response)
            case LeaveGroupResponse(error_code=E.NONE):
                self.start_again(is_classic=self.crosses_to)
            case OffsetCommitResponse() if not self.is_classic:
                pass
            case _:
                super().apply(response)
                if isinstance(response, SyncGroupResponse) and response.error_code == E.NONE:
                    self.previous = self.epoch, self.owned
                    self.owned = partitions_in(response)
                if self.is_classic and self.phase is ClientPhase.OUTSIDE:
                    self._forget()

    def _apply_heartbeat(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code == E.NONE and response.member_epoch < 0:
            self.start_again(is_classic=self.crosses_to)
        elif response.error_code in JOIN_AGAIN:
            self._forget()
        elif response.error_code == E.NONE and not self.is_classic:
            assert self.group is not None
            self.previous = self.epoch, self.owned
            self.client.generation_id = response.member_epoch
            assignment = self.group.named(response).assignment
            self.owned = self.owned if assignment is None else assignment

    def _forget(self) -> None:
        """Set the client back to one that has not joined: epoch 0, no partitions, and without a member id if it is
        classic."""
        self.phase = ClientPhase.OUTSIDE
        self.client.id, self.client.generation_id = "" if self.is_classic else self.own_id, 0
        self.owned = {}


async def group_of_consumers(
    story: StoryContext, name: str, course: RandomCourse, topic_ids: dict[str, bytes]
) -> CourseGroup:
    """Make a group in which every actor is a client that has not joined; its member ids begin with the group's name.

    `topic_ids` are those of the course's own topics, by name.
    """
    group = await ConsumerProtocolGroup.begin(story, topic_ids, **configs_of(course))
    members: list[CourseMember] = [
        CourseConsumer(number, client_of(story, name, actor), group=group, own_id=f"{name[-1]}-{number}")
        for number, actor in enumerate(course.actors)
    ]
    return CourseGroup(story, name, members)


def configs_of(course: RandomCourse) -> dict[str, int]:
    """The settings of the groups of a course."""
    configs = {"assignment_interval_ms": course.assignment_interval_ms or 0}
    if course.consumer_session_timeout_ms is not None:
        configs["session_timeout_ms"] = course.consumer_session_timeout_ms
        configs["heartbeat_interval_ms"] = course.consumer_session_timeout_ms // 4
    return configs


def partitions_in(response: SyncGroupResponse) -> PartitionsByTopic:
    """The partitions that a SyncGroup response assigns."""
    named: dict[str, list[int]] = {}
    for topic, number in assigned_partitions(response.assignment):
        named.setdefault(topic, []).append(number)
    return named
