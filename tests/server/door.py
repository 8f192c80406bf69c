"""A broker with one client at its door, for what versions, topics and lists make of group requests."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from regroup.coordinator.settings import Settings
from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages.describe import ListedGroup, ListGroupsRequest
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.storage.memory import MemoryStore
from tests.server.client import Client


class Door:
    """A running emulator with topic `orders` of three partitions, and one client."""

    def __init__(self, emulator: Emulator, client: Client) -> None:
        self.emulator, self.client = emulator, client

    async def call(self, request: Any, version: int | None = None) -> Any:
        return await self.client.call(request, version)

    async def commit(self, group: str, version: int = 9, **partitions: list[int]) -> Any:
        return await self.call(commit_request(group, self, version, partitions), version)

    async def has_a_member(self, group: str) -> str:
        """Somebody joins and syncs; the group is Stable at generation 1."""
        answer = await self.call(join_request(group), 3)
        share = [SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"mine")]
        await self.call(
            SyncGroupRequest(group_id=group, generation_id=1, member_id=answer.member_id, assignments=share), 3
        )
        return str(answer.member_id)

    def topic_id(self, name: str) -> bytes:
        topic = self.emulator.cluster.topic(name, NO_UUID)
        return topic.id_bytes if topic else b"\xff" * 16

    async def listed(self, **filters: list[str]) -> list[ListedGroup]:
        return list((await self.call(ListGroupsRequest(**filters))).groups)


@asynccontextmanager
async def opened(store: MemoryStore) -> AsyncIterator[Door]:
    ids = itertools.count(1)
    emulator = Emulator(
        store.open,
        clock=Clock(started_at_ms=1_700_000_000_000, monotonic_s=lambda: 0.0),
        new_uuid=lambda: UUID(int=next(ids)),
        settings=Settings(group_initial_rebalance_delay_ms=0),
    )
    await emulator.start()
    await emulator.ensure_topic("orders", 3)
    client = Client(*await asyncio.open_connection(*emulator.address))
    yield Door(emulator, client)
    await client.close()
    await emulator.close()


def join_request(group: str, **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        **fields,
    )


def commit_request(group: str, door: Door, version: int, partitions: dict[str, list[int]]) -> OffsetCommitRequest:
    """Commits offset 7 of each partition; by the topic's id from v10 on."""
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic if version < 10 else "",
                topic_id=door.topic_id(topic) if version >= 10 else NO_UUID,
                partitions=[OffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in numbers],
            )
            for topic, numbers in partitions.items()
        ],
    )
