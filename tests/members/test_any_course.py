"""Whatever comes, in whatever order: the consumer never raises, never spins, and never keeps what it has lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.assignors.interface import Cluster
from regroup.members.consumer.effects import (
    Closed,
    Outgoing,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    Step,
)
from regroup.members.consumer.inputs import (
    Answered,
    Close,
    ClusterSeen,
    Commit,
    Consumed,
    EnforceRebalance,
    Happening,
    ListenerReturned,
    Poll,
    PollReturned,
    Subscribe,
    TimePassed,
    Unanswered,
    Unsubscribe,
)
from regroup.members.consumer.machine import Consumer
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Phase
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
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

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
ORDERS = [TopicPartition("orders", number) for number in range(4)]
GOOD = encode_subscription(Subscription(3, ("orders",)))

# Mostly success, else the group would hardly ever get anywhere.
codes = st.one_of(*[st.just(0)] * 3, st.sampled_from([*map(int, ErrorCode)]))
some_orders = st.lists(st.sampled_from(ORDERS), max_size=4, unique=True)
assignments = st.one_of(
    some_orders.map(lambda given: encode_assignment(Assignment(3, tuple(given)))), st.binary(max_size=12)
)
metadata = st.one_of(st.just(GOOD), st.binary(max_size=12))


def join_response(draw: st.DrawFn) -> Message:
    member_id = draw(st.sampled_from(["anna", "ben"]))
    return JoinGroupResponse(
        error_code=draw(codes),
        generation_id=draw(st.integers(-1, 5)),
        protocol_type=draw(st.sampled_from([None, "consumer", "connect"])),
        protocol_name=draw(st.sampled_from([*ASSIGNORS, None])),
        leader=draw(st.sampled_from(["anna", "ben"])),
        skip_assignment=draw(st.booleans()),
        member_id=member_id,
        members=[
            JoinGroupResponseMember(member_id=name, metadata=draw(metadata))
            for name in draw(st.lists(st.sampled_from(["anna", "ben", "carla"]), max_size=3))
        ],
    )


def sync_response(draw: st.DrawFn) -> Message:
    name = draw(st.sampled_from([*ASSIGNORS, None, None]))
    return SyncGroupResponse(error_code=draw(codes), protocol_name=name, assignment=draw(assignments))


def commit_response(draw: st.DrawFn) -> Message:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=draw(codes))
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[partition])])


def fetch_response(draw: st.DrawFn) -> Message:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=each, committed_offset=draw(st.integers(-1, 9)))
        for each in range(draw(st.integers(0, 4)))
    ]
    topics = [OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    group = OffsetFetchResponseGroup(group_id="payments", topics=topics, error_code=draw(codes))
    return OffsetFetchResponse(groups=draw(st.sampled_from([[group], [group], []])))


def coordinator_response(draw: st.DrawFn) -> Message:
    found = Coordinator(key="payments", node_id=1, host="broker", port=9092, error_code=draw(codes))
    return FindCoordinatorResponse(coordinators=[found] * draw(st.sampled_from([0, 1, 1, 1, 2])))


def metadata_response(draw: st.DrawFn) -> Message:
    partitions = [
        MetadataResponsePartition(partition_index=each, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for each in range(draw(st.integers(0, 5)))
    ]
    topic = MetadataResponseTopic(name="orders", partitions=partitions, error_code=draw(codes))
    rack = draw(st.sampled_from([None, "east"]))
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="broker", port=9092, rack=rack)], topics=[topic]
    )


RESPONSES: dict[type[Message], Callable[[st.DrawFn], Message]] = {
    JoinGroupRequest: join_response,
    SyncGroupRequest: sync_response,
    HeartbeatRequest: lambda draw: HeartbeatResponse(error_code=draw(codes)),
    LeaveGroupRequest: lambda draw: LeaveGroupResponse(error_code=draw(codes)),
    OffsetCommitRequest: commit_response,
    OffsetFetchRequest: fetch_response,
    FindCoordinatorRequest: coordinator_response,
    MetadataRequest: metadata_response,
}

wishes: st.SearchStrategy[Happening] = st.one_of(
    st.just(Poll()),
    st.just(Poll()),
    st.just(PollReturned()),
    st.just(TimePassed()),
    st.just(ListenerReturned()),
    st.just(EnforceRebalance()),
    st.just(Unsubscribe()),
    st.just(Subscribe(("orders",))),
    st.just(Subscribe(("orders", "clicks"))),
    st.just(Subscribe(pattern=re.compile("ord.*"))),
    st.builds(lambda count: ClusterSeen(Cluster({"orders": count})), st.integers(0, 5)),
    st.builds(lambda offset: Consumed({ORDERS[0]: offset, ORDERS[3]: offset}), st.integers(0, 9)),
    st.builds(lambda wait: Commit(wait=wait), st.booleans()),
    st.builds(lambda wait: Commit({ORDERS[1]: 5}, wait=wait), st.booleans()),
)

Setup: TypeAlias = tuple[ConsumerSettings, list[Happening]]

setups = st.builds(
    ConsumerSettings,
    group_id=st.just("payments"),
    group_instance_id=st.sampled_from([None, "anna-1"]),
    client_rack=st.sampled_from([None, "east"]),
    partition_assignment_strategy=st.sampled_from([("cooperative-sticky",), ("range",), ("sticky", "range")]),
    enable_auto_commit=st.booleans(),
    waits_for_listener=st.booleans(),
    max_poll_interval_ms=st.sampled_from([5_000, 300_000]),
)


class Watched:
    """A consumer, and what a bystander believes about its partitions."""

    def __init__(self, consumer_settings: ConsumerSettings) -> None:
        self.consumer = Consumer(consumer_settings)
        self.now_ms = 0
        self.open: list[Outgoing] = []
        self.believed: dict[TopicPartition, None] = {}
        self.ended = False
        self.step = Step()

    def receive(self, happening: Happening) -> None:
        step = self.step = self.consumer.receive(happening, self.now_ms)
        assert not (self.ended and (step.requests or step.changes)), "a closed consumer says nothing more"
        self.open = [*([] if step.hang_up else self.open), *step.requests]
        for change in step.changes:
            match change:
                case PartitionsAssigned(partitions):
                    assert not any(each in self.believed for each in partitions)
                    self.believed |= dict.fromkeys(partitions)
                case PartitionsRevoked(partitions) | PartitionsLost(partitions):
                    assert all(each in self.believed for each in partitions)
                    self.believed = {each: None for each in self.believed if each not in partitions}
                case Closed():
                    self.ended = True
        self.check(step)

    def check(self, step: Step) -> None:
        consumer = self.consumer
        if not consumer.settings.waits_for_listener:
            assert dict.fromkeys(consumer.assigned) == self.believed
        assert frozenset(consumer.positions) <= frozenset(consumer.assigned)
        assert step.deadline_ms is None or step.deadline_ms > self.now_ms, "a deadline that has passed makes it spin"
        if consumer.phase is Phase.UNJOINED:
            assert consumer.generation.is_none


@given(data=st.data(), consumer_settings=setups)
@settings(max_examples=100, deadline=None)
def test_any_course_of_events_is_survived(data: st.DataObject, consumer_settings: ConsumerSettings) -> None:
    watched = Watched(consumer_settings)
    watched.receive(Subscribe(("orders",)))
    watched.receive(Poll())
    for _ in range(data.draw(st.integers(0, 40))):
        watched.now_ms += data.draw(st.sampled_from([0, 1, 100, 3_000, 46_000]))
        choice = data.draw(st.integers(0, 9))
        if choice < 6 and watched.open:
            asked = watched.open.pop(data.draw(st.integers(0, len(watched.open) - 1)))
            response = data.draw(st.composite(RESPONSES[type(asked.message)])())
            watched.receive(Answered(asked.number, response))
        elif choice == 6 and watched.open:
            asked = watched.open.pop(0)
            watched.receive(Unanswered(asked.number, "the connection broke", data.draw(st.booleans())))
        elif choice == 7 and watched.step.deadline_ms is not None:
            watched.now_ms = max(watched.now_ms, watched.step.deadline_ms)
            watched.receive(TimePassed())
        else:
            watched.receive(data.draw(wishes))
    watched.receive(Close(timeout_ms=1_000))
    watched.now_ms += 1_000
    watched.receive(TimePassed())
    assert watched.consumer.is_closed
    assert watched.consumer.assigned == ()
