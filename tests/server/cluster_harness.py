"""A broker cluster with several brokers, and a client of each."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest, MetadataRequestTopic
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.server.clock import Clock
from regroup.server.cluster.image import partition_of_key
from regroup.storage.memory import MemoryStore
from tests.server.wire_client import NOW_MS, WireClient

GROUPS = [f"group-{number}" for number in range(12)]
NO_DELAY = CoordinatorSettings(group_initial_rebalance_delay_ms=0)


def expected_coordinator(group: str, brokers: int = 3) -> int:
    """The broker that leads the group's partition, if partitions are assigned to brokers in turn."""
    return partition_of_key(group, 50) % brokers


class ClusterHarness:
    """A cluster with topic `orders` of six partitions, and its clients."""

    def __init__(self, cluster: BrokerCluster, store: MemoryStore) -> None:
        self.cluster, self.store = cluster, store
        self._clients: dict[tuple[int, str], WireClient] = {}

    async def client(self, broker: int, name: str = "") -> WireClient:
        if (broker, name) not in self._clients:
            self._clients[broker, name] = await WireClient.connect(*self.cluster.addresses[broker])
        return self._clients[broker, name]

    async def call(self, broker: int, request: Any, version: int | None = None, name: str = "") -> Any:
        return await (await self.client(broker, name)).call(request, version)

    async def stop_broker(self, broker: int) -> None:
        await self.cluster.stop_broker(broker)
        for key in [key for key in self._clients if key[0] == broker]:
            await self._clients.pop(key).close()

    async def close_clients(self) -> None:
        await asyncio.gather(*[client.close() for client in self._clients.values()])

    async def coordinator_of(self, key: str, *, through: int = 0, key_type: int = 0) -> int:
        """The coordinator by FindCoordinator, sent to the broker `through`."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        (found,) = (await self.call(through, request)).coordinators
        assert (found.host, found.port) == self.cluster.addresses[found.node_id]
        return int(found.node_id)

    async def leaders(self, *, through: int = 0) -> dict[int, tuple[int, int]]:
        """Leader and leader epoch by partition."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
        (topic,) = (await self.call(through, request)).topics
        return {each.partition_index: (each.leader_id, each.leader_epoch) for each in topic.partitions}

    async def add_member(self, group: str, broker: int) -> str:
        """A member joins and syncs; the group is Stable at generation 1. Returns the member id."""
        joined = await self.call(broker, join_request(group), 3)
        assignments = [g.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")]
        request = g.SyncGroupRequest(
            group_id=group, generation_id=1, member_id=joined.member_id, assignments=assignments
        )
        assert (await self.call(broker, request, 3)).error_code == 0
        return str(joined.member_id)

    async def heartbeat(self, group: str, member: str, broker: int, generation: int = 1) -> int:
        request = g.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        return int((await self.call(broker, request)).error_code)

    async def list_groups(self, broker: int) -> list[str]:
        return [each.group_id for each in (await self.call(broker, d.ListGroupsRequest())).groups]


@asynccontextmanager
async def running_cluster(store: MemoryStore, brokers: int = 3) -> AsyncIterator[ClusterHarness]:
    ids, epoch = itertools.count(1), await store.next_coordinator_epoch()
    environment = ClusterEnvironment(
        clock=Clock(started_at_ms=NOW_MS, monotonic_s=asyncio.get_running_loop().time),
        new_uuid=lambda: UUID(int=epoch << 64 | next(ids)),
    )
    options = ClusterOptions(settings=NO_DELAY, brokers=brokers)
    async with await BrokerCluster.start(store.open, options, environment) as cluster:
        await cluster.ensure_topic("__consumer_offsets", 50)
        await cluster.ensure_topic("orders", 6)
        harness = ClusterHarness(cluster, store)
        yield harness
        await harness.close_clients()


def join_request(
    group: str, *, session_timeout_ms: int = 10_000, rebalance_timeout_ms: int = 60_000, **fields: Any
) -> g.JoinGroupRequest:
    return g.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type="consumer",
        protocols=[g.JoinGroupRequestProtocol(name="range", metadata=b"")],
        **fields,
    )
