"""A group of simulated members on a simulated network, against the emulator in the same process, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from regroup.lab.plan.plan import NetworkPlan
from regroup.lab.simulation.network.simulated_network import SimulatedNetwork
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerError,
    NodeAddress,
    OutgoingRequest,
)
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import parse_fault
from regroup.members.runtime.consumer_protocol_member import ConsumerProtocolMember
from regroup.members.runtime.member import SimulatedMember
from regroup.members.runtime.notes import MemberNote
from regroup.members.runtime.producer import SimulatedProducer
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.members.transports.base import TransportCallback
from regroup.members.transports.tcp import TcpTransport
from regroup.protocol.messages.offsets import OffsetCommitRequest
from regroup.protocol.messages.records import FetchRequest
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment
from regroup.server.clock import Clock
from regroup.server.cluster.events import BROKER_START, TopicDeleted


class CountingTransport(TcpTransport):
    """Counts the requests of a member, and sends each OffsetCommit so much later than the member does."""

    commit_delay_s = 0.0
    request_count = 0
    fetch_count = 0

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        self.request_count += 1
        self.fetch_count += isinstance(request.message, FetchRequest)
        if isinstance(request.message, OffsetCommitRequest) and self.commit_delay_s:
            asyncio.get_running_loop().call_later(self.commit_delay_s, super().send, request, callback)
        else:
            super().send(request, callback)


class GroupOfMembers:
    """Members of the group `payments` on one broker, and all that they have reported."""

    def __init__(self, emulator: BrokerCluster, network: SimulatedNetwork) -> None:
        self._emulator = emulator
        self._network = network
        self.members: dict[str, SimulatedMember] = {}
        self.reports: list[tuple[str, ConsumerChange | ConsumerError]] = []
        self.notes: list[tuple[str, MemberNote]] = []
        self.ledger = RecordLedger()
        self.commit_delay_s = 0.0
        self._others: list[ConsumerProtocolMember] = []
        self._transports: list[CountingTransport] = []

    def _transport(self, client_id: str) -> CountingTransport:
        bootstrap = [NodeAddress(-1, *self._emulator.address)]
        connect = partial(self._network.connect, client_id)
        transport = CountingTransport(bootstrap, client_id=client_id, connect=connect)
        transport.commit_delay_s = self.commit_delay_s
        self._transports.append(transport)
        return transport

    def add(self, name: str, *faults: str, workload: Workload | None = None, **settings: Any) -> SimulatedMember:
        settings = {
            "partition_assignment_strategy": ("cooperative-sticky",),
            "auto_offset_reset": "earliest",
        } | settings
        self.members[name] = SimulatedMember(
            name,
            ConsumerSettings(group_id="payments", client_id=name, **settings),
            self._transport(name),
            Subscribe(("orders",)),
            faults=[parse_fault(fault) for fault in faults],
            workload=workload,
            ledger=self.ledger,
            observe=lambda member, change: self.reports.append((member, change)),
            on_note=lambda member, note: self.notes.append((member, note)),
        )
        self.members[name].start()
        return self.members[name]

    def add_of_consumer_protocol(self, name: str, workload: Workload, *faults: str) -> ConsumerProtocolMember:
        settings = ConsumerSettings(group_id="payments", client_id=name, auto_offset_reset="earliest")
        member = ConsumerProtocolMember(
            name,
            settings,
            self._transport(name),
            Subscribe(("orders",)),
            draw_member_id=name.upper,
            faults=[parse_fault(fault) for fault in faults],
            workload=workload,
            ledger=self.ledger,
        )
        self._others.append(member)
        member.start()
        return member

    def produce(self, workload: Workload) -> SimulatedProducer:
        def now_ms() -> int:
            return int(asyncio.get_running_loop().time() * 1000)

        producer = SimulatedProducer(self._transport("producer"), "orders", workload, draw=0, now_ms=now_ms)
        producer.start()
        return producer

    def delete_topic(self) -> None:
        """Delete the topic, which a client that asks for it creates again."""
        topic_id = self._emulator.state.topics["orders"].topic_id
        self._emulator.state.record_event(TopicDeleted(name="orders", topic_id=topic_id), BROKER_START)

    def reports_of(self, name: str, kind: type[Any]) -> Sequence[Any]:
        return [report for member, report in self.reports if member == name and isinstance(report, kind)]

    @property
    def request_count(self) -> int:
        """How many requests all members and producers have sent."""
        return sum(each.request_count for each in self._transports)

    @property
    def fetch_count(self) -> int:
        """How many Fetch requests all members have sent."""
        return sum(each.fetch_count for each in self._transports)

    def assigned_counts(self) -> dict[str, int]:
        return {name: len(member.consumer.assigned_partitions) for name, member in self.members.items()}

    async def close(self) -> None:
        for member in (*self.members.values(), *self._others):
            await member.close()
        for transport in self._transports:
            await transport.close()


@asynccontextmanager
async def group_of_members(partitions: int = 6) -> AsyncIterator[GroupOfMembers]:
    numbers, loop = count(1), asyncio.get_running_loop()
    network = SimulatedNetwork(loop, Random(0), NetworkPlan())
    environment = ClusterEnvironment(
        clock=Clock(started_at_ms=0, monotonic_s=loop.time),
        new_uuid=lambda: UUID(int=next(numbers)),
        listen=partial(network.listen, "broker"),
    )
    emulator = await BrokerCluster.start(environment=environment)
    await emulator.ensure_topic("orders", partitions)
    group = GroupOfMembers(emulator, network)
    try:
        yield group
    finally:
        await group.close()
        await emulator.close()
