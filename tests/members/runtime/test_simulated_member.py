"""Simulated members with faults on a simulated network, against the emulator in the same process, in virtual time."""

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
    CommitCompleted,
    ConsumerChange,
    ConsumerError,
    ConsumerErrorKind,
    JoinedGroup,
    LeftGroup,
    NodeAddress,
    OutgoingRequest,
    PartitionsLost,
)
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberState
from regroup.members.faults import parse_fault
from regroup.members.runtime.member import SimulatedMember
from regroup.members.runtime.notes import FaultBegan, MemberNote, RequestRefused
from regroup.members.runtime.producer import SimulatedProducer
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.members.transports.base import TransportCallback
from regroup.members.transports.tcp import TcpTransport
from regroup.protocol.messages.offsets import OffsetCommitRequest
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment
from regroup.server.clock import Clock


class SlowCommitTransport(TcpTransport):
    """Sends each OffsetCommit so much later than the member does, and counts the requests of the member."""

    commit_delay_s = 0.0
    request_count = 0

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        self.request_count += 1
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
        self._transports: list[SlowCommitTransport] = []

    def _transport(self, client_id: str) -> SlowCommitTransport:
        bootstrap = [NodeAddress(-1, *self._emulator.address)]
        connect = partial(self._network.connect, client_id)
        transport = SlowCommitTransport(bootstrap, client_id=client_id, connect=connect)
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

    def produce(self, workload: Workload) -> SimulatedProducer:
        def now_ms() -> int:
            return int(asyncio.get_running_loop().time() * 1000)

        producer = SimulatedProducer(self._transport("producer"), "orders", workload, draw=0, now_ms=now_ms)
        producer.start()
        return producer

    def reports_of(self, name: str, kind: type[Any]) -> Sequence[Any]:
        return [report for member, report in self.reports if member == name and isinstance(report, kind)]

    @property
    def request_count(self) -> int:
        """How many requests all members and producers have sent."""
        return sum(each.request_count for each in self._transports)

    def assigned_counts(self) -> dict[str, int]:
        return {name: len(member.consumer.assigned_partitions) for name, member in self.members.items()}

    async def close(self) -> None:
        for member in self.members.values():
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


async def test_members_share_a_topic_and_one_that_closes_leaves_the_group() -> None:
    async with group_of_members() as group:
        for name in ("anna", "ben", "carla"):
            group.add(name)
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 2, "ben": 2, "carla": 2}
        assert {member.view.state for member in group.members.values()} == {MemberState.STABLE}
        await group.members["ben"].close()
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 3, "ben": 0, "carla": 3}
        assert group.members["ben"].view.condition == "left"


async def test_a_crashed_member_is_removed_after_its_session_timeout() -> None:
    async with group_of_members() as group:
        group.add("anna")
        group.add("ben", "crash@20s")
        await asyncio.sleep(20 + 40)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}
        await asyncio.sleep(15)
        assert len(group.members["anna"].consumer.assigned_partitions) == 6


async def test_a_pause_longer_than_the_session_timeout_loses_the_partitions_and_a_shorter_one_does_not() -> None:
    for pause, loses_partitions in (("pause:20s@20s", False), ("pause:60s@20s", True)):
        async with group_of_members() as group:
            group.add("anna")
            group.add("ben", pause)
            await asyncio.sleep(120)
            assert bool(group.reports_of("ben", PartitionsLost)) is loses_partitions
            assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_a_refused_request_is_noted_once() -> None:
    async with group_of_members() as group:
        group.add("anna")
        group.add("ben", "pause:60s@20s")
        await asyncio.sleep(120)
        assert group.notes.count(("ben", RequestRefused("Heartbeat", "UNKNOWN_MEMBER_ID"))) == 1


async def test_a_lasting_fault_is_noted_when_it_begins() -> None:
    async with group_of_members() as group:
        fault = parse_fault("slow-sync:1s@20s")
        group.add("anna", str(fault))
        await asyncio.sleep(19)
        assert group.notes == []
        await asyncio.sleep(2)
        assert group.notes == [("anna", FaultBegan(fault))]


async def test_a_member_that_joins_late_delays_the_rebalance_and_stays_in_the_group() -> None:
    async with group_of_members() as group:
        group.add("anna", "slow-join:60s@20s")
        await asyncio.sleep(30)
        group.add("ben")
        await asyncio.sleep(55)
        assert group.assigned_counts() == {"anna": 6, "ben": 0}
        await asyncio.sleep(20 + 60)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}
        assert not group.reports_of("anna", PartitionsLost)


async def test_a_pause_can_be_ended_before_its_time() -> None:
    async with group_of_members() as group:
        group.add("anna")
        ben = group.add("ben", "pause:1h@20s")
        await asyncio.sleep(30)
        assert ben.view.condition == "paused"
        ben.resume()
        assert ben.view.condition == ""
        await asyncio.sleep(3600)
        assert not group.reports_of("ben", PartitionsLost)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_the_end_of_an_earlier_pause_does_not_end_a_later_one() -> None:
    async with group_of_members() as group:
        ben = group.add("ben")
        await asyncio.sleep(20)
        ben.inject_fault(parse_fault("pause:10s"))
        ben.resume()
        ben.inject_fault(parse_fault("pause:30s"))
        await asyncio.sleep(20)
        assert ben.view.condition == "paused"
        await asyncio.sleep(20)
        assert ben.view.condition == ""


async def test_a_member_that_is_not_paused_cannot_be_resumed() -> None:
    async with group_of_members() as group:
        ben = group.add("ben", "zombie@20s")
        await asyncio.sleep(30)
        ben.resume()
        assert (ben.view.condition, ben.is_zombie) == ("zombie", True)


async def test_a_zombie_that_is_to_pause_stays_a_zombie_and_closes() -> None:
    async with group_of_members() as group:
        ben = group.add("ben", "zombie@20s", session_timeout_ms=10_000)
        await asyncio.sleep(60)
        ben.inject_fault(parse_fault("pause:5s"))
        assert ben.view.condition == "zombie"
        await asyncio.sleep(10)
        assert ben.view.condition == "zombie"
        async with asyncio.timeout(10):
            await ben.close()


async def test_a_member_whose_process_restarts_while_it_closes_is_closed_all_the_same() -> None:
    async with group_of_members() as group:
        group.commit_delay_s = 2.0  # close() commits first
        ben = group.add("ben", "restart:3s@21s", workload=Workload())
        await asyncio.sleep(20.5)
        async with asyncio.timeout(10):
            await ben.close()
        requests = group.request_count
        await asyncio.sleep(20)
        assert group.request_count == requests


async def test_a_lasting_fault_that_has_ended_delays_no_further_rebalance() -> None:
    async with group_of_members() as group:
        anna = group.add("anna", "slow-join:60s@20s")
        await asyncio.sleep(30)
        anna.end_fault(parse_fault("slow-join:60s").kind)
        group.add("ben")
        await asyncio.sleep(15)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_a_member_that_syncs_late_gets_its_partitions_late() -> None:
    async with group_of_members() as group:
        group.add("anna", "slow-sync:10s")
        await asyncio.sleep(12)
        assert group.assigned_counts() == {"anna": 0}
        await asyncio.sleep(5)
        assert group.assigned_counts() == {"anna": 6}


async def test_a_lasting_fault_is_reported_when_it_begins() -> None:
    async with group_of_members() as group:
        group.add("anna", "slow-sync:10s@after-assigned+5s")
        await asyncio.sleep(1)
        assert group.notes == []
        await asyncio.sleep(12)
        assert group.notes == [("anna", FaultBegan(parse_fault("slow-sync:10s@after-assigned+5s")))]


async def test_a_refused_heartbeat_is_reported() -> None:
    async with group_of_members() as group:
        group.add("anna", "pause:60s@20s")
        await asyncio.sleep(90)
        assert ("anna", RequestRefused("Heartbeat", "UNKNOWN_MEMBER_ID")) in group.notes


async def test_a_member_that_never_syncs_gets_no_partitions() -> None:
    async with group_of_members() as group:
        group.add("anna", "never-sync")
        await asyncio.sleep(200)
        assert group.assigned_counts() == {"anna": 0}
        assert group.reports_of("anna", JoinedGroup)


async def test_a_static_member_restarts_without_a_rebalance_unless_it_loses_its_instance_id() -> None:
    for fault, generations in (("restart:10s@20s", 1), ("restart-as-stranger:10s@20s", 2)):
        async with group_of_members() as group:
            group.add("anna", group_instance_id="a")
            group.add("ben", fault, group_instance_id="b")
            await asyncio.sleep(100)
            assert len(group.reports_of("anna", JoinedGroup)) == generations
            if generations == 1:
                assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_records_in_processing_are_dropped_at_a_restart() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=5_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", "restart:1s@20s", workload=workload)
        await asyncio.sleep(20)
        before = anna.view.processed_count
        await asyncio.sleep(10)
        assert anna.view.state is MemberState.PREPARING_REBALANCE
        assert anna.view.processed_count == before
        producer.close()


async def test_a_member_that_restarts_sends_nothing_until_its_next_process_starts() -> None:
    async with group_of_members(partitions=1) as group:
        group.add("anna", "restart:5s@20s", workload=Workload(records_per_s=0))
        await asyncio.sleep(20.1)
        before = group.request_count
        await asyncio.sleep(4.8)
        assert group.request_count == before
        await asyncio.sleep(1)
        assert group.request_count > before


async def test_a_member_that_unsubscribes_owns_nothing_until_it_subscribes_again() -> None:
    async with group_of_members() as group:
        anna, _ = group.add("anna"), group.add("ben")
        await asyncio.sleep(10)
        anna.unsubscribe()
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 0, "ben": 6}
        anna.subscribe()
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_an_application_unsubscribes_when_it_has_processed_its_batch() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=5_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", workload=workload)
        await asyncio.sleep(20)
        before = anna.view.processed_count
        anna.unsubscribe()
        assert group.assigned_counts() == {"anna": 1}
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 0}
        assert anna.view.processed_count == before + 1
        producer.close()


async def test_an_application_that_was_elsewhere_does_not_poll_before_it_has_processed_its_batch() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=20_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", workload=workload)
        await asyncio.sleep(15)
        assert 0 < anna.outside_poll_ms < 15_000
        anna.inject_fault(parse_fault("no-poll:1s"))
        before_ms = anna.outside_poll_ms
        await asyncio.sleep(2)
        assert anna.outside_poll_ms == before_ms + 2_000
        producer.close()


async def test_a_zombie_processes_one_batch_at_a_time() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=1_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", "zombie@10s", workload=workload)
        await asyncio.sleep(10 + 95)
        before = anna.view.processed_count
        await asyncio.sleep(20)
        assert 15 < anna.view.processed_count - before <= 21
        producer.close()


async def test_a_process_that_was_restarted_in_the_middle_of_a_batch_processes_records_again() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=1_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", "restart:1s@10s", workload=workload)
        await asyncio.sleep(11 + 60)
        before = anna.view.processed_count
        await asyncio.sleep(20)
        assert anna.view.processed_count - before > 15
        producer.close()


async def test_the_commits_of_a_zombie_are_refused_with_unknown_member_id() -> None:
    async with group_of_members() as group:
        workload = Workload(records_per_s=10)
        group.add("anna", workload=workload)
        zombie = group.add("ben", "zombie@20s", workload=workload)
        await asyncio.sleep(20 + 80)
        producer = group.produce(workload)
        await asyncio.sleep(20)
        producer.close()
        assert len(group.members["anna"].consumer.assigned_partitions) == 6
        assert zombie.view.condition == "zombie"
        assert zombie.view.last_error == "commit: UNKNOWN_MEMBER_ID"
        assert group.notes[-1] == ("ben", RequestRefused("OffsetCommit", "UNKNOWN_MEMBER_ID"))
        assert group.ledger.counts.duplicates > 50


async def test_a_leader_whose_assignor_fails_stays_in_the_group_and_its_polls_raise_the_error() -> None:
    async with group_of_members() as group:
        group.add("anna", "assignor-fails")
        await asyncio.sleep(30)
        errors = group.reports_of("anna", ConsumerError)
        assert len(errors) > 10
        assert {error.kind for error in errors} == {ConsumerErrorKind.ASSIGNOR}
        assert not group.reports_of("anna", LeftGroup)


async def test_a_member_without_an_assignment_fails_in_poll_and_the_others_go_on() -> None:
    async with group_of_members() as group:
        for name in ("anna", "ben", "carla"):
            group.add(name, "assignor-forgets")
        await asyncio.sleep(10)
        assert sorted(group.assigned_counts().values()) == [0, 2, 2]
        (unassigned,) = [name for name, count in group.assigned_counts().items() if not count]
        assert group.reports_of(unassigned, ConsumerError)[0].kind is ConsumerErrorKind.ASSIGNMENT


async def test_a_partition_that_is_assigned_to_two_members_is_processed_twice() -> None:
    async with group_of_members() as group:
        workload = Workload(records_per_s=50, keys=12)
        for name in ("anna", "ben"):
            group.add(name, "assignor-doubles", workload=workload)
        producer = group.produce(workload)
        await asyncio.sleep(20)
        producer.close()
        await asyncio.sleep(2)
        assert producer.refused_count == 0
        assert group.reports_of("anna", CommitCompleted)
        assert 0 < group.ledger.counts.duplicates < producer.acknowledged_count


async def test_every_record_is_processed_once_without_faults() -> None:
    async with group_of_members() as group:
        workload = Workload(records_per_s=50)
        for name in ("anna", "ben"):
            group.add(name, workload=workload)
        await asyncio.sleep(5)
        producer = group.produce(workload)
        await asyncio.sleep(20)
        producer.close()
        await asyncio.sleep(2)
        tally = group.ledger.counts
        assert (tally.processed, tally.duplicates, tally.late, tally.skipped) == (producer.acknowledged_count, 0, 0, 0)
        assert producer.acknowledged_count == producer.sent_count > 900


async def test_an_eager_member_processes_no_records_while_it_commits_before_it_revokes() -> None:
    async with group_of_members() as group:
        group.commit_delay_s = 1.5
        eager = {"partition_assignment_strategy": ("range",), "heartbeat_interval_ms": 100}
        workload = Workload(records_per_s=50)
        producer = group.produce(workload)
        for name in ("anna", "ben", "carla"):
            group.add(name, workload=workload, **eager)
            await asyncio.sleep(7)
        assert group.assigned_counts() == {"anna": 2, "ben": 2, "carla": 2}
        producer.close()
        await asyncio.sleep(5)
        tally = group.ledger.counts
        assert (tally.processed, tally.duplicates, tally.skipped) == (producer.acknowledged_count, 0, 0)


async def test_records_that_a_closed_member_has_not_completed_are_processed_by_the_next_owner() -> None:
    async with group_of_members(partitions=1) as group:
        group.commit_delay_s = 1.5
        workload = Workload(records_per_s=10, process_ms=1_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", workload=workload)
        await asyncio.sleep(10.5)
        before = anna.view.processed_count
        await anna.close()
        producer.close()
        assert anna.view.processed_count == before > 3
        group.add("ben", workload=Workload())
        await asyncio.sleep(10)
        tally = group.ledger.counts
        assert (tally.processed, tally.duplicates, tally.skipped) == (producer.acknowledged_count, 0, 0)


async def test_the_same_run_gives_the_same_reports() -> None:
    runs = []
    for _ in range(2):
        async with group_of_members() as group:
            group.add("anna", "pause:60s@20s")
            group.add("ben", "slow-sync:1s")
            group.add("carla", "leave@40s")
            await asyncio.sleep(150)
            runs.append(list(group.reports))
    assert runs[0] == runs[1]
