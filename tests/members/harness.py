"""Runs one consumer machine in a test, which plays the coordinator and the clock and answers with values."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from regroup.assignors.interface import Assignor, ClusterMetadata
from regroup.members.consumer.effects import ConsumerChange, ConsumerEffects, ConsumerError, OutgoingRequest
from regroup.members.consumer.inputs import (
    ConsumerInput,
    MetadataUpdated,
    Poll,
    RequestFailed,
    ResponseReceived,
    Subscribe,
    TimePassed,
)
from regroup.members.consumer.machine import ConsumerMachine
from regroup.members.consumer.settings import ConsumerSettings
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.message import Message
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages.cluster import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

Request = TypeVar("Request", bound=Message)
Change = TypeVar("Change")


def orders(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", number) for number in numbers)


class MemberHarness:
    """`open_requests` have no response yet; `changes` and `poll_errors` are those of all effects so far."""

    def __init__(self, assignors: Iterable[Assignor] = (), **settings: Any) -> None:
        settings = {
            "group_id": "payments",
            "partition_assignment_strategy": ("cooperative-sticky",),
            "enable_auto_commit": False,
        } | settings
        self.consumer = ConsumerMachine(ConsumerSettings(**settings), assignors)
        self.now_ms = 1_000_000
        self.open_requests: list[OutgoingRequest] = []
        self.changes: list[ConsumerChange] = []
        self.poll_errors: list[ConsumerError] = []
        self.last_effects = ConsumerEffects()

    # -- inputs and responses

    def receive(self, consumer_input: ConsumerInput) -> ConsumerEffects:
        self.last_effects = self.consumer.receive(consumer_input, self.now_ms)
        if self.last_effects.disconnects_coordinator:
            self.open_requests.clear()
        self.open_requests += self.last_effects.requests
        self.changes += self.last_effects.changes
        if self.last_effects.poll_error:
            self.poll_errors.append(self.last_effects.poll_error)
        return self.last_effects

    def pass_time(self, milliseconds: int) -> ConsumerEffects:
        """Let time pass from deadline to deadline, as a driver does."""
        end_ms = self.now_ms + milliseconds
        for _ in range(10_000):
            deadline_ms = self.last_effects.deadline_ms
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.receive(TimePassed())
        else:
            raise AssertionError(f"the consumer spins at {self.now_ms}")
        self.now_ms = end_ms
        return self.receive(TimePassed())

    def respond(self, request: type[Request], response: Message) -> Request:
        """Respond to the oldest open request of this type, and return that request."""
        outgoing = self.take_request(request)
        self.receive(ResponseReceived(outgoing.request_id, response))
        assert isinstance(outgoing.message, request)
        return outgoing.message

    def fail_request(self, request: type[Message]) -> None:
        self.receive(RequestFailed(self.take_request(request).request_id, "the connection broke"))

    def take_request(self, request: type[Message]) -> OutgoingRequest:
        outgoing = next((each for each in self.open_requests if isinstance(each.message, request)), None)
        assert outgoing is not None, f"no {request.__name__} among {self.open_request_names()}"
        self.open_requests.remove(outgoing)
        return outgoing

    def open_request_names(self) -> list[str]:
        return [type(each.message).__name__.removesuffix("Request") for each in self.open_requests]

    def changes_of(self, change: type[Change]) -> list[Change]:
        return [each for each in self.changes if isinstance(each, change)]

    # -- requests and responses of a group

    def subscribe(self, *topics: str, partitions: int = 4) -> "MemberHarness":
        self.receive(Subscribe(topics or ("orders",)))
        self.receive(MetadataUpdated(ClusterMetadata(dict.fromkeys(topics or ("orders",), partitions))))
        self.receive(Poll())
        return self

    def find_coordinator(self) -> None:
        coordinator = Coordinator(key="payments", node_id=1, host="broker", port=9092)
        self.respond(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[coordinator]))

    def complete_join(
        self,
        generation: int = 1,
        *,
        leader: str = "anna",
        member_id: str = "anna",
        protocol: str = "cooperative-sticky",
        others: Sequence[str] = (),
        skip_assignment: bool = False,
    ) -> g.JoinGroupRequest:
        request = self.take_request(g.JoinGroupRequest)
        assert isinstance(request.message, g.JoinGroupRequest)
        metadata = next((each.metadata for each in request.message.protocols if each.name == protocol), b"")
        plain = encode_subscription(Subscription(3, ("orders",)))
        members = [g.JoinGroupResponseMember(member_id=member_id, metadata=metadata)]
        members += [g.JoinGroupResponseMember(member_id=other, metadata=plain) for other in others]
        response = g.JoinGroupResponse(
            generation_id=generation,
            protocol_type="consumer",
            protocol_name=protocol,
            leader=leader,
            member_id=member_id,
            members=members if leader == member_id else [],
            skip_assignment=skip_assignment,
        )
        self.receive(ResponseReceived(request.request_id, response))
        return request.message

    def complete_sync(self, *partitions: TopicPartition) -> g.SyncGroupRequest:
        assignment = encode_assignment(Assignment(3, partitions))
        return self.respond(g.SyncGroupRequest, g.SyncGroupResponse(assignment=assignment))

    def reach_stable(
        self, *partitions: TopicPartition, leader: str = "anna", protocol: str = "cooperative-sticky"
    ) -> "MemberHarness":
        """Subscribe, join generation 1, and get these partitions."""
        self.subscribe()
        self.find_coordinator()
        self.complete_join(leader=leader, protocol=protocol)
        self.complete_sync(*partitions)
        return self

    def lead_without_metadata(self) -> None:
        """Subscribe to clicks, and become the leader of a group whose other member reads orders, of which nothing is
        known."""
        self.receive(Subscribe(("clicks",)))
        self.receive(Poll())
        self.respond(MetadataRequest, MetadataResponse(brokers=[], topics=[]))
        self.find_coordinator()
        self.complete_join(others=["ben"])
        assert self.open_request_names() == ["Metadata"]

    def complete_offset_fetch(self, offset: int = -1, code: int = 0, group_code: int = 0) -> o.OffsetFetchRequest:
        request = next(each.message for each in self.open_requests if isinstance(each.message, o.OffsetFetchRequest))
        topics = [
            o.OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    o.OffsetFetchResponsePartitions(partition_index=number, committed_offset=offset, error_code=code)
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.groups[0].topics or []
        ]
        group = o.OffsetFetchResponseGroup(group_id="payments", topics=topics, error_code=group_code)
        return self.respond(o.OffsetFetchRequest, o.OffsetFetchResponse(groups=[group]))

    def complete_heartbeat(self, code: int = 0) -> g.HeartbeatRequest:
        return self.respond(g.HeartbeatRequest, g.HeartbeatResponse(error_code=code))

    def complete_commit(self, code: int = 0) -> o.OffsetCommitRequest:
        topic = o.OffsetCommitResponseTopic(
            name="orders", partitions=[o.OffsetCommitResponsePartition(partition_index=0, error_code=code)]
        )
        return self.respond(o.OffsetCommitRequest, o.OffsetCommitResponse(topics=[topic]))
