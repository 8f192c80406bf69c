"""What a member sends when its connection breaks in the moment in which it reports a change."""

import asyncio
from collections.abc import Callable

from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerError,
    OutgoingRequest,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived, Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.member import SimulatedMember
from regroup.members.transports.base import TransportCallback
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, encode_assignment
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

ORDERS = MetadataResponseTopic(
    name="orders",
    partitions=[MetadataResponsePartition(partition_index=0, leader_id=0, replica_nodes=[0], isr_nodes=[0])],
)
ANSWERS: dict[type[Message], Message] = {
    MetadataRequest: MetadataResponse(brokers=[], topics=[ORDERS]),
    FindCoordinatorRequest: FindCoordinatorResponse(
        coordinators=[Coordinator(key="payments", node_id=0, host="broker", port=9092)]
    ),
    JoinGroupRequest: JoinGroupResponse(
        generation_id=1, protocol_type="consumer", protocol_name="range", leader="ben", member_id="anna-1", members=[]
    ),
    SyncGroupRequest: SyncGroupResponse(assignment=encode_assignment(Assignment(1, (TopicPartition("orders", 0),)))),
}
"""Every other request gets no response."""


class Broker:
    """A transport that answers the requests of a rebalance, each in the next turn of the loop."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self._open: list[tuple[OutgoingRequest, TransportCallback]] = []

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        self.sent.append(request.message)
        if (response := ANSWERS.get(type(request.message))) is not None:
            asyncio.get_running_loop().call_soon(callback, ResponseReceived(request.request_id, response))
        else:
            self._open.append((request, callback))

    def fail_heartbeats(self) -> None:
        """Break the connection on which heartbeats wait for their responses."""
        for request, callback in [each for each in self._open if isinstance(each[0].message, HeartbeatRequest)]:
            callback(RequestFailed(request.request_id, "the connection broke"))

    def disconnect_coordinator(self) -> None: ...

    async def close(self) -> None: ...


def sent_after_revocation(act: Callable[[Broker], None]) -> list[str]:
    """What a member sends in the turn of the loop in which it reports that it revokes partitions, and `act` is
    called."""
    broker, found = Broker(), list[str]()

    async def main() -> None:
        def observe(name: str, change: ConsumerChange | ConsumerError) -> None:
            if isinstance(change, PartitionsRevoked) and not found:
                sent = len(broker.sent)
                act(broker)
                asyncio.get_running_loop().call_soon(
                    lambda: found.extend(type(each).__name__ for each in broker.sent[sent:])
                )

        settings = ConsumerSettings(
            group_id="payments", partition_assignment_strategy=("range",), enable_auto_commit=False
        )
        member = SimulatedMember("anna", settings, broker, Subscribe(("orders",)), observe=observe)
        member.start()
        await asyncio.sleep(3.5)
        member.enforce_rebalance("the test wants one")
        await asyncio.sleep(0.1)
        await member.close()

    run_in_virtual_time(main(), VirtualLoop())
    return found


def test_a_member_whose_connection_breaks_as_it_revokes_does_not_join_over_it() -> None:
    assert sent_after_revocation(lambda broker: broker.fail_heartbeats()) == ["FindCoordinatorRequest"]


def test_a_member_whose_connection_holds_joins_when_it_has_revoked() -> None:
    assert sent_after_revocation(lambda broker: None) == ["JoinGroupRequest"]
