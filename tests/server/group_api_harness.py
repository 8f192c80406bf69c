"""A cluster of one broker with a client, for what versions, topics and lists of groups do to requests about groups."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages.describe import ListedGroup, ListGroupsRequest
from regroup.protocol.messages.group import SyncGroupRequest, SyncGroupRequestAssignment
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.server.clock import Clock
from regroup.server.recording.recorder import Recorder
from regroup.server.releases import Release
from regroup.storage.memory import MemoryStore
from tests.server.cluster_harness import NO_DELAY, join_request
from tests.server.wire_client import NOW_MS, WireClient


class GroupApiHarness:
    """A running cluster with topic `orders` of three partitions, and one client."""

    def __init__(self, cluster: BrokerCluster, client: WireClient) -> None:
        self.cluster, self.client = cluster, client

    async def call(self, request: Any, version: int | None = None) -> Any:
        return await self.client.call(request, version)

    async def commit(self, group: str, version: int = 9, **partitions: list[int]) -> Any:
        return await self.call(commit_request(group, self, version, partitions), version)

    async def add_member(self, group: str) -> str:
        """A member joins and syncs; the group is Stable at generation 1. Returns the member id."""
        joined = await self.call(join_request(group), 3)
        assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
        request = SyncGroupRequest(group_id=group, generation_id=1, member_id=joined.member_id, assignments=assignments)
        await self.call(request, 3)
        return str(joined.member_id)

    def topic_id(self, name: str) -> bytes:
        topic = self.cluster.state.find_topic(name, NO_UUID)
        return topic.id_bytes if topic else b"\xff" * 16

    async def list_groups(self, **filters: list[str]) -> list[ListedGroup]:
        return list((await self.call(ListGroupsRequest(**filters))).groups)


@asynccontextmanager
async def running_group_api(
    store: MemoryStore, release: Release | None, recorder: Recorder | None = None
) -> AsyncIterator[GroupApiHarness]:
    ids = itertools.count(1)
    environment = ClusterEnvironment(
        clock=Clock(started_at_ms=NOW_MS, monotonic_s=lambda: 0.0),
        new_uuid=lambda: UUID(int=next(ids)),
        recorder=recorder,
    )
    options = ClusterOptions(settings=NO_DELAY, release=release)
    async with await BrokerCluster.start(store.open, options, environment) as cluster:
        await cluster.ensure_topic("orders", 3)
        client = await WireClient.connect(*cluster.address)
        yield GroupApiHarness(cluster, client)
        await client.close()


def commit_request(
    group: str, harness: GroupApiHarness, version: int, partitions: dict[str, list[int]]
) -> OffsetCommitRequest:
    """A commit of offset 7 in each partition; topics by their id from v10 on."""
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic if version < 10 else "",
                topic_id=harness.topic_id(topic) if version >= 10 else NO_UUID,
                partitions=[OffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in indexes],
            )
            for topic, indexes in partitions.items()
        ],
    )
