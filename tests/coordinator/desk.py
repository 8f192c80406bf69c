"""A coordinator at work on a clock that jumps, over a store that can be made to wait or to fail."""

import asyncio
from collections.abc import Sequence
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, Protocol, State
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import KafkaLog
from regroup.coordinator.runtime.loading import history
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.storage.errors import StoreIsFull
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord, Record
from tests.virtual_time import virtual_now

SETTINGS = Settings()


class SlowStore(MemoryStore):
    """Waits at a gate before each commit, and can run out of room."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_full = False

    async def append(self, records: Sequence[NewRecord]) -> int:
        await self.gate.wait()
        if self.is_full:
            raise StoreIsFull("no room")
        return await super().append(records)


class Desk:
    """A coordinator at work, and short words for what consumers send it."""

    def __init__(self, store: MemoryStore, settings: Settings = SETTINGS, kafka_log: KafkaLog | None = None) -> None:
        self.store = store
        self.journal = Journal(store)
        self.now = virtual_now()
        self.coordinator = GroupCoordinator(self.journal, settings=settings, now=self.now, kafka_log=kafka_log)
        self.tasks: list[asyncio.Task[Any]] = []

    def join(self, name: str, group: str = "payments", **fields: Any) -> c.JoinGroup:
        usual: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (Protocol("range"),),
            "can_be_asked_to_return": False,
            "new_member_id": name,
        }
        return c.JoinGroup(**usual | fields, group_id=group, at_ms=self.now())

    def sync(self, name: str, generation: int = 1, group: str = "payments", **shares: bytes) -> c.SyncGroup:
        return c.SyncGroup(
            group_id=group, at_ms=self.now(), member_id=name, generation_id=generation, assignment=shares
        )

    def beat(self, name: str, generation: int = 1, group: str = "payments") -> c.Heartbeat:
        return c.Heartbeat(group_id=group, at_ms=self.now(), member_id=name, generation_id=generation)

    def commit(self, offset: int = 100, group: str = "payments", **fields: Any) -> c.CommitOffsets:
        offsets = (c.OffsetToCommit("foo", 0, offset),)
        return c.CommitOffsets(group_id=group, at_ms=self.now(), offsets=offsets, **fields)

    def asks(self, command: c.Command) -> "Answer":
        """Hand a command in; the answer comes when it comes."""
        answer = Answer()
        self.coordinator.submit(command, answer.take)
        return answer

    async def stable(self, *names: str, group: str = "payments") -> None:
        """Everybody joins in the initial delay and has a share of generation 1."""
        for name in names:
            self.asks(self.join(name, group))
        await asyncio.sleep(7)
        for name in names:
            self.asks(self.sync(name, group=group, **{each: each.encode() for each in names}))
        await turns()
        assert self.coordinator.group(group).state is State.STABLE


class Answer:
    """What came back, and how often."""

    def __init__(self) -> None:
        self.all: list[Structure] = []

    def take(self, message: Structure) -> None:
        self.all.append(message)

    @property
    def has_come(self) -> bool:
        return bool(self.all)

    @property
    def message(self) -> Any:
        [message] = self.all
        return message

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(self.message.error_code)


async def turns(count: int = 10) -> None:
    """Let everybody do what can be done without time passing."""
    for _ in range(count):
        await asyncio.sleep(0)


async def every_record(store: MemoryStore) -> list[Record]:
    return [record async for record in store.read()]


async def full_fold(store: MemoryStore) -> dict[str, Group]:
    """Every group from its first event on, without snapshots."""
    groups: dict[str, Group] = {}
    async for record, event in history(store):
        name = record.group or ""
        groups[name] = evolve(groups.get(name) or Group(name=name), event)
    return groups
