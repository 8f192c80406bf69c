"""Any inputs in any order: the consumer never raises, never spins, and never keeps partitions that it has lost."""

import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from regroup.assignors.interface import ClusterMetadata
from regroup.members.consumer import inputs as i
from regroup.members.consumer.effects import (
    ConsumerClosed,
    ConsumerEffects,
    OutgoingRequest,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import ConsumerInput
from regroup.members.consumer.machine import ConsumerMachine
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberState
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages import cluster as c
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
ORDERS = [TopicPartition("orders", number) for number in range(4)]
GOOD = encode_subscription(Subscription(3, ("orders",)))

# Mostly success: otherwise the group would hardly ever become stable.
codes = st.one_of(*[st.just(0)] * 3, st.sampled_from([*map(int, ErrorCode)]))
some_orders = st.lists(st.sampled_from(ORDERS), max_size=4, unique=True)
assignments = st.one_of(
    some_orders.map(lambda assigned: encode_assignment(Assignment(3, tuple(assigned)))), st.binary(max_size=12)
)
metadata = st.one_of(st.just(GOOD), st.binary(max_size=12))


def join_response(draw: st.DrawFn) -> Message:
    member_id = draw(st.sampled_from(["anna", "ben"]))
    return g.JoinGroupResponse(
        error_code=draw(codes),
        generation_id=draw(st.integers(-1, 5)),
        protocol_type=draw(st.sampled_from([None, "consumer", "connect"])),
        protocol_name=draw(st.sampled_from([*ASSIGNORS, None])),
        leader=draw(st.sampled_from(["anna", "ben"])),
        skip_assignment=draw(st.booleans()),
        member_id=member_id,
        members=[
            g.JoinGroupResponseMember(member_id=name, metadata=draw(metadata))
            for name in draw(st.lists(st.sampled_from(["anna", "ben", "carla"]), max_size=3))
        ],
    )


def sync_response(draw: st.DrawFn) -> Message:
    name = draw(st.sampled_from([*ASSIGNORS, None, None]))
    return g.SyncGroupResponse(error_code=draw(codes), protocol_name=name, assignment=draw(assignments))


def commit_response(draw: st.DrawFn) -> Message:
    partition = o.OffsetCommitResponsePartition(partition_index=0, error_code=draw(codes))
    return o.OffsetCommitResponse(topics=[o.OffsetCommitResponseTopic(name="orders", partitions=[partition])])


def fetch_response(draw: st.DrawFn) -> Message:
    partitions = [
        o.OffsetFetchResponsePartitions(partition_index=each, committed_offset=draw(st.integers(-1, 9)))
        for each in range(draw(st.integers(0, 4)))
    ]
    topics = [o.OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    group = o.OffsetFetchResponseGroup(group_id="payments", topics=topics, error_code=draw(codes))
    return o.OffsetFetchResponse(groups=draw(st.sampled_from([[group], [group], []])))


def coordinator_response(draw: st.DrawFn) -> Message:
    found = c.Coordinator(key="payments", node_id=1, host="broker", port=9092, error_code=draw(codes))
    return c.FindCoordinatorResponse(coordinators=[found] * draw(st.sampled_from([0, 1, 1, 1, 2])))


def metadata_response(draw: st.DrawFn) -> Message:
    partitions = [
        c.MetadataResponsePartition(partition_index=each, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for each in range(draw(st.integers(0, 5)))
    ]
    topic = c.MetadataResponseTopic(name="orders", partitions=partitions, error_code=draw(codes))
    rack = draw(st.sampled_from([None, "east"]))
    return c.MetadataResponse(
        brokers=[c.MetadataResponseBroker(node_id=1, host="broker", port=9092, rack=rack)], topics=[topic]
    )


RESPONSES: dict[type[Message], Callable[[st.DrawFn], Message]] = {
    g.JoinGroupRequest: join_response,
    g.SyncGroupRequest: sync_response,
    g.HeartbeatRequest: lambda draw: g.HeartbeatResponse(error_code=draw(codes)),
    g.LeaveGroupRequest: lambda draw: g.LeaveGroupResponse(error_code=draw(codes)),
    o.OffsetCommitRequest: commit_response,
    o.OffsetFetchRequest: fetch_response,
    c.FindCoordinatorRequest: coordinator_response,
    c.MetadataRequest: metadata_response,
}

application_inputs: st.SearchStrategy[ConsumerInput] = st.one_of(
    st.just(i.Poll()),
    st.just(i.Poll()),
    st.just(i.PollReturned()),
    st.just(i.TimePassed()),
    st.just(i.ListenerReturned()),
    st.just(i.EnforceRebalance()),
    st.just(i.Unsubscribe()),
    st.just(i.Subscribe(("orders",))),
    st.just(i.Subscribe(("orders", "clicks"))),
    st.just(i.Subscribe(pattern=re.compile("ord.*"))),
    st.builds(lambda count: i.MetadataUpdated(ClusterMetadata({"orders": count})), st.integers(0, 5)),
    st.builds(lambda offset: i.RecordsConsumed({ORDERS[0]: offset, ORDERS[3]: offset}), st.integers(0, 9)),
    st.builds(lambda is_sync: i.Commit(is_sync=is_sync), st.booleans()),
    st.builds(lambda is_sync: i.Commit({ORDERS[1]: 5}, is_sync=is_sync), st.booleans()),
)

consumer_settings = st.builds(
    ConsumerSettings,
    group_id=st.just("payments"),
    group_instance_id=st.sampled_from([None, "anna-1"]),
    client_rack=st.sampled_from([None, "east"]),
    partition_assignment_strategy=st.sampled_from([("cooperative-sticky",), ("range",), ("sticky", "range")]),
    enable_auto_commit=st.booleans(),
    waits_for_listener=st.booleans(),
    max_poll_interval_ms=st.sampled_from([5_000, 300_000]),
)


class CheckedConsumer:
    """A consumer, and the partitions that it owns according to its changes."""

    def __init__(self, consumer_settings: ConsumerSettings) -> None:
        self.consumer = ConsumerMachine(consumer_settings)
        self.now_ms = 0
        self.open_requests: list[OutgoingRequest] = []
        self.owned: dict[TopicPartition, None] = {}
        self.is_closed = False
        self.effects = ConsumerEffects()

    def receive(self, consumer_input: ConsumerInput) -> None:
        effects = self.effects = self.consumer.receive(consumer_input, self.now_ms)
        assert not (self.is_closed and (effects.requests or effects.changes)), "a closed consumer has no effects"
        self.open_requests = [*([] if effects.disconnects_coordinator else self.open_requests), *effects.requests]
        for change in effects.changes:
            match change:
                case PartitionsAssigned(partitions):
                    assert not any(each in self.owned for each in partitions)
                    self.owned |= dict.fromkeys(partitions)
                case PartitionsRevoked(partitions) | PartitionsLost(partitions):
                    assert all(each in self.owned for each in partitions)
                    self.owned = {each: None for each in self.owned if each not in partitions}
                case ConsumerClosed():
                    self.is_closed = True
        self.check(effects)

    def check(self, effects: ConsumerEffects) -> None:
        consumer = self.consumer
        if not consumer.settings.waits_for_listener:
            assert dict.fromkeys(consumer.assigned_partitions) == self.owned
        assert frozenset(consumer.positions) <= frozenset(consumer.assigned_partitions)
        assert effects.deadline_ms is None or effects.deadline_ms > self.now_ms, "a deadline in the past makes it spin"
        if consumer.state is MemberState.UNJOINED:
            assert consumer.generation.is_none


@given(data=st.data(), settings_of_consumer=consumer_settings)
def test_no_order_of_inputs_breaks_a_consumer(data: st.DataObject, settings_of_consumer: ConsumerSettings) -> None:
    checked = CheckedConsumer(settings_of_consumer)
    checked.receive(i.Subscribe(("orders",)))
    checked.receive(i.Poll())
    for _ in range(data.draw(st.integers(0, 40))):
        checked.now_ms += data.draw(st.sampled_from([0, 1, 100, 3_000, 46_000]))
        choice = data.draw(st.integers(0, 9))
        if choice < 6 and checked.open_requests:
            request = checked.open_requests.pop(data.draw(st.integers(0, len(checked.open_requests) - 1)))
            response = data.draw(st.composite(RESPONSES[type(request.message)])())
            checked.receive(i.ResponseReceived(request.request_id, response))
        elif choice == 6 and checked.open_requests:
            request = checked.open_requests.pop(0)
            checked.receive(i.RequestFailed(request.request_id, "the connection broke", data.draw(st.booleans())))
        elif choice == 7 and checked.effects.deadline_ms is not None:
            checked.now_ms = max(checked.now_ms, checked.effects.deadline_ms)
            checked.receive(i.TimePassed())
        else:
            checked.receive(data.draw(application_inputs))
    checked.receive(i.Close(timeout_ms=1_000))
    checked.now_ms += 1_000
    checked.receive(i.TimePassed())
    assert checked.consumer.is_closed
    assert checked.consumer.assigned_partitions == ()
