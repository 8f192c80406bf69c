"""Members with habits, driven against the emulator's own coordinator in the same process; the clock jumps."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from regroup.lab.plan.plan import NetworkPlan
from regroup.lab.simulation.network import Network
from regroup.members.consumer.effects import (
    Change,
    CommitEnded,
    ConsumerError,
    ErrorKind,
    JoinedGroup,
    LeftGroup,
    PartitionsLost,
)
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Phase
from regroup.members.faults import parse_habit
from regroup.members.producer.producer import Producer
from regroup.members.runtime.member import Member
from regroup.members.runtime.workload import Ledger, Workload
from regroup.members.transports.direct import CallTransport
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.offsets import OffsetCommitRequest
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.net.exchange import Exchange
from regroup.storage.memory import MemoryStore


def now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


class Company:
    """Members of one group on one broker, and what they have told."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.members: dict[str, Member] = {}
        self.told: list[tuple[str, Change | ConsumerError]] = []
        self.ledger = Ledger()
        self.commit_takes_s = 0.0
        self._open: list[CallTransport] = []

    async def call(self, header: RequestHeader, request: Message) -> Message:
        """One request as if it had come over a connection of its own."""
        if isinstance(request, OffsetCommitRequest):
            await asyncio.sleep(self.commit_takes_s)
        answer = asyncio.get_running_loop().create_future()
        connection: Any = SimpleNamespace(
            name="in process",
            client_host="/127.0.0.1",
            finish=lambda exchange, message: answer.done() or answer.set_result(message),
            abandon=lambda exchange, reason: answer.done() or answer.set_exception(ConnectionError(reason)),
        )
        handler = self.emulator.broker.handler_of(header)
        assert handler is not None
        handler(Exchange(connection, header, request))
        message: Message = await answer
        return message

    def transport(self, client_id: str) -> CallTransport:
        self._open.append(CallTransport(self.call, client_id=client_id))
        return self._open[-1]

    def add(self, name: str, *habits: str, workload: Workload | None = None, **settings: Any) -> Member:
        settings = {
            "partition_assignment_strategy": ("cooperative-sticky",),
            "auto_offset_reset": "earliest",
        } | settings
        self.members[name] = Member(
            name,
            ConsumerSettings(group_id="payments", client_id=name, **settings),
            self.transport(name),
            Subscribe(("orders",)),
            habits=[parse_habit(habit) for habit in habits],
            workload=workload,
            ledger=self.ledger,
            observe=lambda teller, happening: self.told.append((teller, happening)),
        )
        self.members[name].start()
        return self.members[name]

    def told_by(self, name: str, kind: type[Any]) -> Sequence[Any]:
        return [happening for teller, happening in self.told if teller == name and isinstance(happening, kind)]

    def shares(self) -> dict[str, int]:
        return {name: len(member.consumer.assigned) for name, member in self.members.items()}

    async def close(self) -> None:
        for member in self.members.values():
            await member.close()
        for transport in self._open:
            await transport.close()


@asynccontextmanager
async def company(partitions: int = 6) -> AsyncIterator[Company]:
    async def open_store() -> MemoryStore:
        return MemoryStore()

    numbers, loop = count(1), asyncio.get_running_loop()
    emulator = Emulator(
        open_store,
        clock=Clock(started_at_ms=0, monotonic_s=loop.time),
        new_uuid=lambda: UUID(int=next(numbers)),
        listen=partial(Network(loop, Random(0), NetworkPlan()).listen, "broker"),
    )
    await emulator.start()
    await emulator.ensure_topic("orders", partitions)
    gathered = Company(emulator)
    try:
        yield gathered
    finally:
        await gathered.close()
        await emulator.close()


async def test_three_members_share_a_topic_and_leave_politely() -> None:
    async with company() as gathered:
        for name in ("anna", "ben", "carla"):
            gathered.add(name)
        await asyncio.sleep(10)
        assert gathered.shares() == {"anna": 2, "ben": 2, "carla": 2}
        assert {member.view.phase for member in gathered.members.values()} == {Phase.STABLE}
        await gathered.members["ben"].close()
        await asyncio.sleep(10)
        assert gathered.shares() == {"anna": 3, "ben": 0, "carla": 3}
        assert gathered.members["ben"].view.condition == "left"


async def test_a_crashed_member_is_missed_after_its_session_timeout() -> None:
    async with company() as gathered:
        gathered.add("anna")
        gathered.add("ben", "crash@20s")
        await asyncio.sleep(20 + 40)
        assert gathered.shares() == {"anna": 3, "ben": 3}
        await asyncio.sleep(15)
        assert len(gathered.members["anna"].consumer.assigned) == 6


async def test_a_short_pause_goes_unnoticed_and_a_long_one_costs_the_partitions() -> None:
    for pause, loses in (("pause:20s@20s", False), ("pause:60s@20s", True)):
        async with company() as gathered:
            gathered.add("anna")
            gathered.add("ben", pause)
            await asyncio.sleep(120)
            assert bool(gathered.told_by("ben", PartitionsLost)) is loses
            assert gathered.shares() == {"anna": 3, "ben": 3}


async def test_a_slow_joiner_holds_up_the_whole_group_and_keeps_its_place() -> None:
    async with company() as gathered:
        gathered.add("anna", "slow-join:60s@20s")
        await asyncio.sleep(30)
        gathered.add("ben")
        await asyncio.sleep(55)
        assert gathered.shares() == {"anna": 6, "ben": 0}
        await asyncio.sleep(20 + 60)
        assert gathered.shares() == {"anna": 3, "ben": 3}
        assert not gathered.told_by("anna", PartitionsLost)


async def test_members_that_sync_late_still_get_there_and_who_never_syncs_does_not() -> None:
    async with company() as gathered:
        gathered.add("anna", "slow-sync:10s")
        await asyncio.sleep(12)
        assert gathered.shares() == {"anna": 0}
        await asyncio.sleep(5)
        assert gathered.shares() == {"anna": 6}
    async with company() as gathered:
        gathered.add("anna", "never-sync")
        await asyncio.sleep(200)
        assert gathered.shares() == {"anna": 0}
        assert gathered.told_by("anna", JoinedGroup)


async def test_a_static_member_that_restarts_in_time_finds_its_partitions_and_a_stranger_does_not() -> None:
    for habit, generations in (("restart:10s@20s", 1), ("restart-as-stranger:10s@20s", 2)):
        async with company() as gathered:
            gathered.add("anna", group_instance_id="a")
            gathered.add("ben", habit, group_instance_id="b")
            await asyncio.sleep(100)
            first = gathered.told_by("anna", JoinedGroup)
            assert len(first) == generations
            if generations == 1:
                assert gathered.shares() == {"anna": 3, "ben": 3}


async def test_what_a_process_was_working_on_dies_with_it() -> None:
    async with company(partitions=1) as gathered:
        workload = Workload(records_per_s=10, process_ms=5_000, max_poll_records=1)
        producer = Producer(gathered.transport("producer"), "orders", workload, draw=0, now_ms=now_ms)
        producer.start()
        anna = gathered.add("anna", "restart:1s@20s", workload=workload)
        await asyncio.sleep(20)
        before = anna.view.processed
        await asyncio.sleep(10)
        assert anna.view.phase is Phase.PREPARING
        assert anna.view.processed == before
        producer.close()


async def test_a_zombie_is_told_that_its_time_is_over() -> None:
    async with company() as gathered:
        workload = Workload(records_per_s=10)
        gathered.add("anna", workload=workload)
        zombie = gathered.add("ben", "zombie@20s", workload=workload)
        await asyncio.sleep(20 + 80)
        producer = Producer(gathered.transport("producer"), "orders", workload, draw=0, now_ms=now_ms)
        producer.start()
        await asyncio.sleep(20)
        producer.close()
        assert len(gathered.members["anna"].consumer.assigned) == 6
        assert zombie.view.condition == "zombie"
        assert zombie.view.last_error == "commit: UNKNOWN_MEMBER_ID"
        assert gathered.ledger.tally.twice > 50


async def test_a_leader_whose_assignor_fails_stays_and_the_error_comes_out_of_its_poll() -> None:
    async with company() as gathered:
        gathered.add("anna", "assignor-fails")
        await asyncio.sleep(30)
        errors = gathered.told_by("anna", ConsumerError)
        assert len(errors) > 10
        assert {error.kind for error in errors} == {ErrorKind.ASSIGNOR}
        assert not gathered.told_by("anna", LeftGroup)


async def test_who_is_forgotten_by_the_leader_fails_in_poll_and_the_others_go_on() -> None:
    async with company() as gathered:
        for name in ("anna", "ben", "carla"):
            gathered.add(name, "assignor-forgets")
        await asyncio.sleep(10)
        assert sorted(gathered.shares().values()) == [0, 2, 2]
        (forgotten,) = [name for name, held in gathered.shares().items() if not held]
        assert gathered.told_by(forgotten, ConsumerError)[0].kind is ErrorKind.ASSIGNMENT


async def test_a_partition_that_is_given_to_two_members_is_processed_twice() -> None:
    async with company() as gathered:
        workload = Workload(records_per_s=50, keys=12)
        for name in ("anna", "ben"):
            gathered.add(name, "assignor-doubles", workload=workload)
        producer = Producer(gathered.transport("producer"), "orders", workload, draw=0, now_ms=now_ms)
        producer.start()
        await asyncio.sleep(20)
        producer.close()
        await asyncio.sleep(2)
        assert producer.refused == 0
        assert gathered.told_by("anna", CommitEnded)
        assert 0 < gathered.ledger.tally.twice < producer.written


async def test_every_record_is_processed_once_while_nothing_goes_wrong() -> None:
    async with company() as gathered:
        workload = Workload(records_per_s=50)
        for name in ("anna", "ben"):
            gathered.add(name, workload=workload)
        await asyncio.sleep(5)
        producer = Producer(gathered.transport("producer"), "orders", workload, draw=0, now_ms=now_ms)
        producer.start()
        await asyncio.sleep(20)
        producer.close()
        await asyncio.sleep(2)
        tally = gathered.ledger.tally
        assert (tally.processed, tally.twice, tally.late, tally.skipped) == (producer.written, 0, 0, 0)
        assert producer.written == producer.sent > 900


async def test_an_eager_member_reads_nothing_more_while_it_commits_what_it_gives_up() -> None:
    async with company() as gathered:
        gathered.commit_takes_s = 1.5
        eager = {"partition_assignment_strategy": ("range",), "heartbeat_interval_ms": 100}
        workload = Workload(records_per_s=50)
        producer = Producer(gathered.transport("producer"), "orders", workload, draw=0, now_ms=now_ms)
        producer.start()
        for name in ("anna", "ben", "carla"):
            gathered.add(name, workload=workload, **eager)
            await asyncio.sleep(7)
        assert gathered.shares() == {"anna": 2, "ben": 2, "carla": 2}
        producer.close()
        await asyncio.sleep(5)
        tally = gathered.ledger.tally
        assert (tally.processed, tally.twice, tally.skipped) == (producer.written, 0, 0)


async def test_a_member_that_is_closed_leaves_what_it_has_not_finished_to_the_next_owner() -> None:
    async with company(partitions=1) as gathered:
        gathered.commit_takes_s = 1.5
        workload = Workload(records_per_s=10, process_ms=1_000, max_poll_records=1)
        producer = Producer(gathered.transport("producer"), "orders", workload, draw=0, now_ms=now_ms)
        producer.start()
        anna = gathered.add("anna", workload=workload)
        await asyncio.sleep(10.5)
        before = anna.view.processed
        await anna.close()
        producer.close()
        assert anna.view.processed == before > 3
        gathered.add("ben", workload=Workload())
        await asyncio.sleep(10)
        tally = gathered.ledger.tally
        assert (tally.processed, tally.twice, tally.skipped) == (producer.written, 0, 0)


async def test_the_same_story_is_told_twice_the_same_way() -> None:
    tellings = []
    for _ in range(2):
        async with company() as gathered:
            gathered.add("anna", "pause:60s@20s")
            gathered.add("ben", "slow-sync:1s")
            gathered.add("carla", "leave@40s")
            await asyncio.sleep(150)
            tellings.append(list(gathered.told))
    assert tellings[0] == tellings[1]
