"""The application of a member of the consumer protocol: when it is outside poll(), and what it processes."""

import asyncio
from uuid import UUID

import pytest

from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import ResponseReceived, Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import parse_fault
from regroup.members.runtime.application import FetchedRecord
from regroup.members.runtime.consumer_protocol_member import ConsumerProtocolMember
from regroup.members.runtime.workload import Workload
from regroup.members.transports.base import TransportCallback
from regroup.protocol.consumer.subscription import TopicPartition
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

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        match request.message:
            case FindCoordinatorRequest():
                callback(ResponseReceived(request.request_id, FOUND))
            case MetadataRequest():
                callback(ResponseReceived(request.request_id, METADATA))
            case ConsumerGroupHeartbeatRequest():
                self.open.append((request, callback))

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


def started(transport: Heartbeats, *faults: str, workload: Workload | None = None) -> ConsumerProtocolMember:
    """Anna, who has joined without partitions."""
    member = ConsumerProtocolMember(
        "anna",
        ConsumerSettings(group_id="g"),
        transport,
        Subscribe(("orders",)),
        draw_member_id=lambda: str(UUID(int=1)),
        faults=[parse_fault(each) for each in faults],
        workload=workload,
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
        if leaves:
            member.inject_fault(parse_fault("leave"))
        await asyncio.sleep(1)
        assert member.view.processed_count == processed

    run_in_virtual_time(main(), VirtualLoop())
