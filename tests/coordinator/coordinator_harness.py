"""An asyncio coordinator on a virtual clock, over a store that can be made to wait or to fail."""

import asyncio
from collections.abc import Sequence
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.decision import LeaderPolicy, first_candidate
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import KafkaLog
from regroup.coordinator.runtime.loading import evolve_record
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.storage.errors import StoreFull
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord, Record
from tests.coordinator.join_requests import join_request
from tests.virtual_time import virtual_now

SETTINGS = CoordinatorSettings()


class GatedStore(MemoryStore):
    """A store whose commits wait while `gate` is cleared, and fail while `is_full`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_full = False

    async def append(self, records: Sequence[NewRecord]) -> int:
        await self.gate.wait()
        if self.is_full:
            raise StoreFull("no room")
        return await super().append(records)


class CapturedResponse:
    """The responses to one request: none yet, or one."""

    def __init__(self) -> None:
        self.responses: list[Structure] = []

    def receive(self, response: Structure) -> None:
        self.responses.append(response)

    @property
    def has_arrived(self) -> bool:
        return bool(self.responses)

    @property
    def response(self) -> Any:
        [response] = self.responses
        return response

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)


class CoordinatorHarness:
    """A coordinator over a store, and the commands that clients send it."""

    def __init__(
        self,
        store: MemoryStore,
        settings: CoordinatorSettings = SETTINGS,
        kafka_log: KafkaLog | None = None,
        choose_leader: LeaderPolicy = first_candidate,
    ) -> None:
        self.store = store
        self.journal = Journal(store)
        self.now = virtual_now()
        self.coordinator = GroupCoordinator(
            self.journal, settings=settings, now=self.now, kafka_log=kafka_log, choose_leader=choose_leader
        )

    @property
    def group(self) -> Group:
        return self.coordinator.group("payments")

    def submit(self, command: c.Command) -> CapturedResponse:
        captured = CapturedResponse()
        self.coordinator.submit(command, captured.receive)
        return captured

    def join_group(self, new_member_id: str, group: str = "payments", **fields: Any) -> c.JoinGroup:
        defaults: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "supported_protocols": (SupportedProtocol("range"),),
            "supports_member_id_required": False,
            "new_member_id": new_member_id,
        }
        return join_request(**defaults | fields, group_id=group, at_ms=self.now())

    def sync_group(
        self, member_id: str, generation_id: int = 1, group: str = "payments", **assignments: bytes
    ) -> c.SyncGroup:
        return c.SyncGroup(
            group_id=group,
            at_ms=self.now(),
            member_id=member_id,
            generation_id=generation_id,
            assignments=assignments,
        )

    def heartbeat(self, member_id: str, generation_id: int = 1, group: str = "payments") -> c.Heartbeat:
        return c.Heartbeat(group_id=group, at_ms=self.now(), member_id=member_id, generation_id=generation_id)

    def leave_group(self, member_id: str, group: str = "payments") -> c.LeaveGroup:
        return c.LeaveGroup(group_id=group, at_ms=self.now(), members=(c.LeavingMember(member_id),))

    def offset_commit(self, offset: int = 100, group: str = "payments", **fields: Any) -> c.OffsetCommit:
        offsets = (c.RequestedOffset("foo", 0, offset),)
        return c.OffsetCommit(group_id=group, at_ms=self.now(), offsets=offsets, **fields)

    async def reach_stable(self, *member_ids: str, group: str = "payments") -> None:
        """Let members join during the initial delay and sync in generation 1."""
        for member_id in member_ids:
            self.submit(self.join_group(member_id, group))
        await asyncio.sleep(7)
        for member_id in member_ids:
            assignments = {each: each.encode() for each in member_ids}
            self.submit(self.sync_group(member_id, group=group, **assignments))
        await run_ready()
        assert self.coordinator.group(group).state is GroupState.STABLE


async def run_ready(loop_steps: int = 10) -> None:
    """Let the event loop run what is ready, without time passing."""
    for _ in range(loop_steps):
        await asyncio.sleep(0)


async def read_records(store: MemoryStore) -> list[Record]:
    return [record async for record in store.read()]


async def fold_history(store: MemoryStore) -> dict[str, Group]:
    """Every group, folded from its first event without snapshots."""
    groups: dict[str, Group] = {}
    async for record in store.read():
        assert record.group is not None
        groups[record.group] = evolve_record(groups.get(record.group) or Group(group_id=record.group), record)
    return groups
