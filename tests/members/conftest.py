"""A consumer on a stage: the test plays the coordinator and the clock, and answers with values."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from regroup.assignors.interface import Assignor, Cluster
from regroup.lab.simulation.virtual_clock import VirtualLoop
from regroup.members.consumer.effects import Change, ConsumerError, Outgoing, Step
from regroup.members.consumer.inputs import Answered, ClusterSeen, Happening, Poll, Subscribe, TimePassed, Unanswered
from regroup.members.consumer.machine import Consumer
from regroup.members.consumer.settings import ConsumerSettings
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ON_A_CLOCK_THAT_JUMPS = ("test_drive",)
"""Files whose members need no sockets."""

Request = TypeVar("Request", bound=Message)
CHANGES = TypeVar("CHANGES")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualLoop} if item.path.stem in ON_A_CLOCK_THAT_JUMPS else {"real": asyncio.new_event_loop}


def orders(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", number) for number in numbers)


class Stage:
    """`said` are the requests nobody has answered yet, `happened` and `raised` everything so far."""

    def __init__(self, assignors: Iterable[Assignor] = (), **settings: Any) -> None:
        settings = {
            "group_id": "payments",
            "partition_assignment_strategy": ("cooperative-sticky",),
            "enable_auto_commit": False,
        } | settings
        self.consumer = Consumer(ConsumerSettings(**settings), assignors)
        self.now_ms = 1_000_000
        self.said: list[Outgoing] = []
        self.happened: list[Change] = []
        self.raised: list[ConsumerError] = []
        self.last = Step()

    # -- what happens

    def when(self, happening: Happening) -> Step:
        self.last = self.consumer.receive(happening, self.now_ms)
        if self.last.hang_up:
            self.said.clear()
        self.said += self.last.requests
        self.happened += self.last.changes
        if self.last.raised:
            self.raised.append(self.last.raised)
        return self.last

    def pass_time(self, milliseconds: int) -> Step:
        """Go from deadline to deadline, as a driver would."""
        end_ms = self.now_ms + milliseconds
        for _ in range(10_000):
            deadline_ms = self.last.deadline_ms
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.when(TimePassed())
        else:
            raise AssertionError(f"the consumer spins at {self.now_ms}")
        self.now_ms = end_ms
        return self.when(TimePassed())

    def answer(self, request: type[Request], response: Message) -> Request:
        """Answer the oldest request of this type, and give it back."""
        outgoing = self.take(request)
        self.when(Answered(outgoing.number, response))
        assert isinstance(outgoing.message, request)
        return outgoing.message

    def break_connection(self, request: type[Message]) -> None:
        self.when(Unanswered(self.take(request).number, "the connection broke"))

    def take(self, request: type[Message]) -> Outgoing:
        outgoing = next((each for each in self.said if isinstance(each.message, request)), None)
        assert outgoing is not None, f"no {request.__name__} among {self.names()}"
        self.said.remove(outgoing)
        return outgoing

    def names(self) -> list[str]:
        return [type(each.message).__name__.removesuffix("Request") for each in self.said]

    def all(self, change: type[CHANGES]) -> list[CHANGES]:
        return [each for each in self.happened if isinstance(each, change)]

    # -- the usual course

    def subscribed(self, *topics: str, partitions: int = 4) -> "Stage":
        self.when(Subscribe(topics or ("orders",)))
        self.when(ClusterSeen(Cluster(dict.fromkeys(topics or ("orders",), partitions))))
        self.when(Poll())
        return self

    def coordinator_found(self) -> None:
        coordinator = Coordinator(key="payments", node_id=1, host="broker", port=9092)
        self.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[coordinator]))

    def joined(
        self,
        generation: int = 1,
        *,
        leader: str = "anna",
        member_id: str = "anna",
        protocol: str = "cooperative-sticky",
        others: Sequence[str] = (),
        skip_assignment: bool = False,
    ) -> JoinGroupRequest:
        joining = self.take(JoinGroupRequest)
        assert isinstance(joining.message, JoinGroupRequest)
        metadata = next((each.metadata for each in joining.message.protocols if each.name == protocol), b"")
        plain = encode_subscription(Subscription(3, ("orders",)))
        members = [JoinGroupResponseMember(member_id=member_id, metadata=metadata)]
        members += [JoinGroupResponseMember(member_id=other, metadata=plain) for other in others]
        response = JoinGroupResponse(
            generation_id=generation,
            protocol_type="consumer",
            protocol_name=protocol,
            leader=leader,
            member_id=member_id,
            members=members if leader == member_id else [],
            skip_assignment=skip_assignment,
        )
        self.when(Answered(joining.number, response))
        return joining.message

    def synced(self, *partitions: TopicPartition) -> SyncGroupRequest:
        assignment = encode_assignment(Assignment(3, partitions))
        return self.answer(SyncGroupRequest, SyncGroupResponse(assignment=assignment))

    def stable(
        self, *partitions: TopicPartition, leader: str = "anna", protocol: str = "cooperative-sticky"
    ) -> "Stage":
        """Subscribed, joined in generation 1, and in possession of these partitions."""
        self.subscribed()
        self.coordinator_found()
        self.joined(leader=leader, protocol=protocol)
        self.synced(*partitions)
        return self

    def offsets_fetched(self, offset: int = -1, code: int = 0, group_code: int = 0) -> OffsetFetchRequest:
        wanted = next(each.message for each in self.said if isinstance(each.message, OffsetFetchRequest))
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=number, committed_offset=offset, error_code=code)
                    for number in topic.partition_indexes
                ],
            )
            for topic in wanted.groups[0].topics or []
        ]
        group = OffsetFetchResponseGroup(group_id="payments", topics=topics, error_code=group_code)
        return self.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))

    def heartbeat_answered(self, code: int = 0) -> HeartbeatRequest:
        return self.answer(HeartbeatRequest, HeartbeatResponse(error_code=code))

    def commit_answered(self, code: int = 0) -> OffsetCommitRequest:
        topic = OffsetCommitResponseTopic(
            name="orders", partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=code)]
        )
        return self.answer(OffsetCommitRequest, OffsetCommitResponse(topics=[topic]))


@pytest.fixture
def stage() -> Stage:
    """One cooperative-sticky consumer of the group `payments` that commits only when it is told to."""
    return Stage()


@pytest.fixture
def stage_with() -> Callable[..., Stage]:
    """The same with other settings or assignors."""
    return Stage
