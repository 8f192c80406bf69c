"""Several brokers in one process, and a client of each."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from regroup.coordinator.settings import Settings
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest, MetadataRequestTopic
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.cluster.topics import partition_of_key
from regroup.storage.memory import MemoryStore
from tests.server.client import NOW_MS, Client

GROUPS = [f"group-{number}" for number in range(12)]


def home_of(group: str, brokers: int = 3) -> int:
    """The broker that Kafka would ask, if the partitions were dealt out in turn."""
    return partition_of_key(group, 50) % brokers


class Company:
    """Three brokers with topic `orders` of six partitions, and a client of each."""

    def __init__(self, emulator: Emulator, store: MemoryStore) -> None:
        self.emulator, self.store = emulator, store
        self._clients: dict[tuple[int, str], Client] = {}

    async def client(self, broker: int, name: str = "") -> Client:
        if (broker, name) not in self._clients:
            self._clients[broker, name] = Client(*await asyncio.open_connection(*self.emulator.addresses[broker]))
        return self._clients[broker, name]

    async def ask(self, broker: int, request: Any, version: int | None = None, name: str = "") -> Any:
        return await (await self.client(broker, name)).call(request, version)

    async def stops(self, broker: int) -> None:
        await self.emulator.stop_broker(broker)
        for key in [key for key in self._clients if key[0] == broker]:
            await self._clients.pop(key).close()

    async def close(self) -> None:
        await asyncio.gather(*[client.close() for client in self._clients.values()])

    async def coordinator_of(self, group: str, *, asking: int = 0, kind: int = 0) -> int:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[group])
        (found,) = (await self.ask(asking, request)).coordinators
        assert (found.host, found.port) == self.emulator.addresses[found.node_id]
        return int(found.node_id)

    async def leaders(self, *, asking: int = 0) -> dict[int, tuple[int, int]]:
        """Leader and leader epoch by partition."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
        (topic,) = (await self.ask(asking, request)).topics
        return {each.partition_index: (each.leader_id, each.leader_epoch) for each in topic.partitions}

    async def has_a_member(self, group: str, broker: int) -> str:
        """Somebody joins and syncs; the group is Stable at generation 1."""
        joined = await self.ask(broker, join_request(group), 3)
        share = [g.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")]
        request = g.SyncGroupRequest(group_id=group, generation_id=1, member_id=joined.member_id, assignments=share)
        assert (await self.ask(broker, request, 3)).error_code == 0
        return str(joined.member_id)

    async def beats(self, group: str, member: str, broker: int, generation: int = 1) -> int:
        request = g.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        return int((await self.ask(broker, request)).error_code)

    async def listed(self, broker: int) -> list[str]:
        return [each.group_id for each in (await self.ask(broker, d.ListGroupsRequest())).groups]


@asynccontextmanager
async def gathered(store: MemoryStore, brokers: int = 3) -> AsyncIterator[Company]:
    ids, reign = itertools.count(1), await store.next_reign()
    emulator = Emulator(
        store.open,
        clock=Clock(started_at_ms=NOW_MS, monotonic_s=asyncio.get_running_loop().time),
        new_uuid=lambda: UUID(int=reign << 64 | next(ids)),
        settings=Settings(group_initial_rebalance_delay_ms=0),
        brokers=brokers,
    )
    await emulator.start()
    await emulator.ensure_topic("__consumer_offsets", 50)
    await emulator.ensure_topic("orders", 6)
    company = Company(emulator, store)
    yield company
    await company.close()
    await emulator.close()


def join_request(group: str, **fields: Any) -> g.JoinGroupRequest:
    return g.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[g.JoinGroupRequestProtocol(name="range", metadata=b"")],
        **fields,
    )
