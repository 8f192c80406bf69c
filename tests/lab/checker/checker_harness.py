"""A coordinator with a checker, on a virtual clock, and short methods for the requests of consumers.

harness = CheckerHarness()
await harness.stabilize("anna", "ben")
assert harness.verdict.sentences == ()
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import KafkaLog
from regroup.coordinator.serialization import Cause
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.lab.checker.checker import Checker
from regroup.lab.checker.verdict import RunVerdict
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.server.cluster.events import ProducerInitialized, TransactionPrepared, encode_cluster_event
from regroup.storage.journal import Journal
from regroup.storage.records import NewRecord
from tests.coordinator.coordinator_harness import GatedStore
from tests.coordinator.join_requests import join_request
from tests.virtual_time import virtual_now

GROUP = "payments"
SUBSCRIPTION = encode_subscription(Subscription(3, ("orders",)))


class ObservedStore(GatedStore):
    """Reports every stored record to the checker."""

    def __init__(self, checker: Checker) -> None:
        super().__init__()
        self._checker = checker

    async def append(self, records: Sequence[NewRecord]) -> int:
        position = await super().append(records)
        self._checker.on_stored(records, position)
        return position

    def drop_last_record(self) -> None:
        """Lose a record that was reported as durable."""
        gone = self._records.pop()
        head = self._heads.heads[gone.group]
        self._heads.heads[gone.group] = replace(head, event_number=head.event_number - 1)
        self._heads.last_position -= 1


class CheckerHarness:
    """A coordinator under observation. Requests return a list that collects their responses."""

    def __init__(self, kafka_log: KafkaLog | None = None, **settings: int) -> None:
        self.settings = CoordinatorSettings(**settings)
        self.now = virtual_now()
        self.checker = Checker(self.settings, now_ms=lambda: round(asyncio.get_running_loop().time() * 1000))
        self.store = ObservedStore(self.checker)
        self.journal = Journal(self.store)
        self._kafka_log = kafka_log
        self.coordinator = self.make_coordinator()

    def make_coordinator(self) -> GroupCoordinator:
        return self.checker.make_coordinator(
            self.journal, settings=self.settings, now=self.now, kafka_log=self._kafka_log
        )

    @property
    def group(self) -> Group:
        return self.coordinator.group(GROUP)

    @property
    def verdict(self) -> RunVerdict:
        """The verdict if the run ended now."""
        return self.checker.finish()

    def violated_sentences(self) -> set[str]:
        return set(self.verdict.sentences)

    # Requests

    def submit(self, command: c.Command) -> list[Any]:
        """Submit a command; its responses, one or none, are added to the list."""
        responses: list[Any] = []
        self.coordinator.submit(command, responses.append)
        return responses

    def join(self, name: str = "", **fields: Any) -> list[Any]:
        return self.submit(self.join_command(name, **fields))

    def join_command(self, name: str = "", **fields: Any) -> c.JoinGroup:
        defaults: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "supported_protocols": (SupportedProtocol("range", SUBSCRIPTION),),
            "supports_member_id_required": False,
            "new_member_id": name,
            "group_id": GROUP,
            "at_ms": self.now(),
        }
        return join_request(**defaults | fields)

    def sync(self, name: str, generation: int | None = None, **assignments: bytes) -> list[Any]:
        generation_id = self.group.generation_id if generation is None else generation
        return self.submit(
            c.SyncGroup(
                group_id=GROUP, at_ms=self.now(), member_id=name, generation_id=generation_id, assignments=assignments
            )
        )

    def heartbeat(self, name: str, generation: int | None = None) -> list[Any]:
        generation_id = self.group.generation_id if generation is None else generation
        return self.submit(c.Heartbeat(group_id=GROUP, at_ms=self.now(), member_id=name, generation_id=generation_id))

    def leave(self, *names: str) -> list[Any]:
        leaving = tuple(c.LeavingMember(name) for name in names)
        return self.submit(c.LeaveGroup(group_id=GROUP, at_ms=self.now(), members=leaving))

    def commit(self, offset: int, partition: int = 0, **fields: Any) -> list[Any]:
        offsets = (c.RequestedOffset("orders", partition, offset),)
        return self.submit(c.OffsetCommit(group_id=GROUP, at_ms=self.now(), offsets=offsets, **fields))

    def commit_as(self, name: str, offset: int, generation: int | None = None) -> list[Any]:
        generation_id = self.group.generation_id if generation is None else generation
        return self.commit(offset, member_id=name, generation_id=generation_id)

    def end_transaction(self, producer_id: int) -> None:
        """Store that the transaction of a producer is to be committed, as its coordinator does, and end it."""
        events = (
            ProducerInitialized(transactional_id="t", producer_id=producer_id, epoch=0, timeout_ms=1_000),
            TransactionPrepared(transactional_id="t", committed=True, epoch=0),
        )
        for number, event in enumerate(events, 1):
            cause = Cause(internal="test")
            record = encode_cluster_event(
                event, event_number=number, coordinator_epoch=1, at_ms=self.now(), cause=cause
            )
            self.journal.append([record])
        self.submit(c.EndTransaction(group_id=GROUP, producer_id=producer_id, at_ms=self.now(), committed=True))

    # Initial states

    async def start(self) -> None:
        await self.coordinator.start()

    async def complete_join_phase(self, *names: str) -> None:
        """All members join within the initial delay, and the first leads; none has sent SyncGroup yet."""
        if not self.coordinator.is_ready:
            await self.start()
        for name in names:
            self.join(name)
        await asyncio.sleep(7)
        assert self.group.state is GroupState.COMPLETING_REBALANCE

    async def stabilize(self, *names: str) -> None:
        """The group becomes Stable: the first member has partition 0, the second partition 1, and so on."""
        await self.complete_join_phase(*names)
        assignments = {name: assignment_of(number) for number, name in enumerate(names)}
        for name in reversed(names):
            self.sync(name, **(assignments if name == names[0] else {}))
        await run_ready()
        assert self.group.state is GroupState.STABLE


def assignment_of(*partitions: int) -> bytes:
    """An assignment of these partitions of the topic `orders`."""
    return encode_assignment(Assignment(3, tuple(TopicPartition("orders", number) for number in partitions)))


async def run_ready(count: int = 10) -> None:
    """Run everything that is ready, without letting time pass."""
    for _ in range(count):
        await asyncio.sleep(0)
