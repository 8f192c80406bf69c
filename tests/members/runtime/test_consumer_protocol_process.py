"""The application of a member of the consumer protocol: when it is outside poll(), and what it processes."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import ResponseReceived, Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import parse_fault
from regroup.members.runtime.application import FetchedRecord
from regroup.members.runtime.consumer_protocol_member import ConsumerProtocolMember
from regroup.members.runtime.notes import MemberNote, RequestRefused
from regroup.members.runtime.workload import Workload
from regroup.members.transports.base import TransportCallback
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest

FOUND = FindCoordinatorResponse(
    node_id=0, host="", port=0, coordinators=[Coordinator(key="g", node_id=0, host="broker", port=1)]
)
ORDERS_ID = bytes(15) + b"\x07"
METADATA = MetadataResponse(brokers=[], topics=[MetadataResponseTopic(name="orders", topic_id=ORDERS_ID)])
ORDERS_0 = ConsumerGroupAssignment(topic_partitions=[ConsumerGroupTopicPartitions(topic_id=ORDERS_ID, partitions=[0])])


class Heartbeats:
    """A transport whose broker answers at once; the test answers the heartbeats."""

    def __init__(self) -> None:
        self.open: list[tuple[OutgoingRequest, TransportCallback]] = []
        self.commits: list[OffsetCommitRequest] = []

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        match request.message:
            case FindCoordinatorRequest():
                callback(ResponseReceived(request.request_id, FOUND))
            case MetadataRequest():
                callback(ResponseReceived(request.request_id, METADATA))
            case ConsumerGroupHeartbeatRequest():
                self.open.append((request, callback))
            case OffsetCommitRequest():
                self.commits.append(request.message)

    def answer(self, message: Message) -> None:
        request, callback = self.open.pop(0)
        callback(ResponseReceived(request.request_id, message))

    def disconnect_coordinator(self) -> None:
        pass

    async def close(self) -> None:
        pass


def response(assignment: ConsumerGroupAssignment | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id="anna", member_epoch=1, heartbeat_interval_ms=3_000, assignment=assignment
    )


def started(
    transport: Heartbeats,
    *faults: str,
    workload: Workload | None = None,
    on_note: Callable[[str, MemberNote], None] = lambda name, note: None,
) -> ConsumerProtocolMember:
    """Anna, who has joined without partitions."""
    member = ConsumerProtocolMember(
        "anna",
        ConsumerSettings(group_id="g"),
        transport,
        Subscribe(("orders",)),
        draw_member_id=lambda: str(UUID(int=1)),
        faults=[parse_fault(each) for each in faults],
        workload=workload,
        on_note=on_note,
    )
    member.start()
    transport.answer(response())
    return member


def test_a_member_that_is_slow_to_join_is_outside_poll_after_an_assignment_alone() -> None:
    async def main() -> None:
        transport = Heartbeats()
        member = started(transport, "slow-join:10s")
        await asyncio.sleep(1)
        assert member.outside_poll_ms == 0
        await asyncio.sleep(3)
        transport.answer(response(ORDERS_0))
        await asyncio.sleep(1)
        assert member.outside_poll_ms == 1_000

    run_in_virtual_time(main(), VirtualLoop())


@pytest.mark.parametrize(("leaves", "processed"), [(False, 1), (True, 0)])
def test_a_member_that_leaves_does_not_complete_the_batch_that_it_has_in_hand(leaves: bool, processed: int) -> None:
    """Its positions are committed when it begins to leave, so the next owner would process the batch once more."""

    async def main() -> None:
        transport = Heartbeats()
        member = started(transport, workload=Workload(process_ms=200))
        await asyncio.sleep(4)
        transport.answer(response(ORDERS_0))
        member._application.add_records([FetchedRecord(TopicPartition("orders", 0), 0, 0)])
        member._application.on_fetched()
        if leaves:
            member.inject_fault(parse_fault("leave"))
        await asyncio.sleep(1)
        assert member.view.processed_count == processed

    run_in_virtual_time(main(), VirtualLoop())


def test_a_member_commits_the_positions_of_what_it_was_assigned() -> None:
    async def main() -> None:
        transport = Heartbeats()
        member = started(transport, workload=Workload())
        await asyncio.sleep(4)
        transport.answer(response(ORDERS_0))
        member._application.add_records([FetchedRecord(TopicPartition("orders", 0), 6, 0)])
        member._application.on_fetched()
        await asyncio.sleep(6)
        rows = {(topic.name, row) for each in transport.commits for topic in each.topics for row in topic.partitions}
        assert [(name, row.partition_index, row.committed_offset) for name, row in rows] == [("orders", 0, 7)]

    run_in_virtual_time(main(), VirtualLoop())


def test_a_refused_heartbeat_is_reported() -> None:
    async def main() -> None:
        transport, notes = Heartbeats(), list[MemberNote]()
        started(transport, on_note=lambda name, note: notes.append(note))
        await asyncio.sleep(4)
        transport.answer(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))
        assert notes == [RequestRefused("ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH")]

    run_in_virtual_time(main(), VirtualLoop())
