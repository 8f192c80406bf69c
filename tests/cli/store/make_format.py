"""Writes a store as test_format.py reads it, in the present format: `python -m tests.cli.store.make_format FILE`.

It has every type of event, two coordinator epochs, and the snapshots of two orderly stops. Time is virtual and ids are
counted, so each call writes the same rows.
"""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

from regroup.coordinator import commands as c
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import DelayedLog
from regroup.coordinator.serialization import Cause
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.lab.plan.plan import NetworkPlan
from regroup.lab.simulation.network.simulated_network import SimulatedNetwork
from regroup.lab.simulation.virtual_clock import START_MS, VirtualLoop, run_in_virtual_time
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.record_batch import BatchRecord, write_batch
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.server.clock import Clock
from regroup.server.cluster.events import PartitionsAdded, TopicConfigured, TopicDeleted
from regroup.server.cluster.transaction_coordinator import ProducerIdentity
from regroup.storage.sqlite.inline import open_inline_store
from tests.coordinator.join_requests import join_request
from tests.server.validated_records import validated

PAGE_BYTES: Final = 512
"""The smallest page of SQLite, since every table and every index takes at least one."""
OPTIONS: Final = ClusterOptions(settings=CoordinatorSettings(offsets_commit_timeout_ms=1_000))


class Client:
    """Sends commands to the groups of a cluster, with the causes that a broker would give them."""

    def __init__(self, cluster: BrokerCluster, now: Callable[[], int]) -> None:
        self.cluster, self.now = cluster, now

    async def request(self, command: Callable[..., c.Command], group_id: str, **fields: Any) -> list[Any]:
        """The list that gets the response: now, or later if it is held."""
        api = "JoinGroup" if command is join_request else command.__name__
        cause = Cause(api=api, connection="0-1", correlation_id=self.now() % 1000, client_id="format")
        responses: list[Any] = []
        built = command(group_id=group_id, at_ms=self.now(), **fields)
        self.cluster.coordinator_of(group_id).submit(built, responses.append, cause)
        await asyncio.sleep(0.001)
        return responses

    async def join(self, group_id: str, name: str, member_id: str = "", **profile: Any) -> list[Any]:
        """JoinGroup with a subscription to `orders`."""
        subscription = encode_subscription(Subscription(1, ("orders",)))
        return await self.request(
            join_request,
            group_id,
            member_id=member_id,
            new_member_id=f"{name}-00000000-0000-0000-0000-{self.now() % 10**12:012}",
            protocol_type="consumer",
            client_id=name,
            client_host="/10.0.0.7",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            supported_protocols=(SupportedProtocol("range", subscription),),
            **profile,
        )

    async def join_with_id(self, group_id: str, name: str) -> str:
        """Join as a dynamic member does, in two requests; returns the member id."""
        [required] = await self.join(group_id, name)
        await self.join(group_id, name, required.member_id)
        return str(required.member_id)

    async def sync(self, group_id: str, generation_id: int, *members: str) -> None:
        """Every member sends SyncGroup, the leader (the first one) an assignment of one partition to each."""
        assignments = {
            each: encode_assignment(Assignment(1, (TopicPartition("orders", number),)))
            for number, each in enumerate(members)
        }
        for each in reversed(members):
            await self.request(
                c.SyncGroup,
                group_id,
                generation_id=generation_id,
                member_id=each,
                assignments=assignments if each == members[0] else {},
            )

    async def commit(self, group_id: str, offset: int, **fields: Any) -> None:
        offsets = (c.RequestedOffset("orders", 0, offset, leader_epoch=0, metadata="m"),)
        await self.request(c.OffsetCommit, group_id, offsets=offsets, **fields)


@asynccontextmanager
async def running_cluster(path: Path, log: DelayedLog, first_id: int) -> AsyncIterator[Client]:
    loop = asyncio.get_running_loop()
    ids = count(first_id)
    clock = Clock(started_at_ms=START_MS + round(loop.time() * 1000), monotonic_s=loop.time)
    network = SimulatedNetwork(loop, Random(0), NetworkPlan())
    environment = ClusterEnvironment(
        clock=clock,
        new_uuid=lambda: UUID(int=next(ids)),
        listen=partial(network.listen, "broker"),
        coordinator_factory=partial(GroupCoordinator, kafka_log=log),
    )
    async with await BrokerCluster.start(partial(open_inline_store, path), OPTIONS, environment) as cluster:
        yield Client(cluster, clock)


async def write_first_process(client: Client) -> None:
    """Two members share a topic until one is removed, a static member restarts, and two transactions end."""
    state, transactions, cause = client.cluster.state, client.cluster.transactions, Cause(api="CreateTopics")
    await client.cluster.ensure_topic("orders", 2)
    topic = state.create_topic("parcels", 1, {"retention.ms": "60000"}, cause=cause)
    state.record_event(PartitionsAdded(name="parcels", partitions=2), Cause(api="CreatePartitions"))
    state.record_event(TopicConfigured(name="parcels", configs={}), Cause(api="IncrementalAlterConfigs"))
    batch = write_batch([BatchRecord(value=b"a parcel")], base_timestamp_ms=client.now())
    state.append_batches(topic, 0, validated(batch, produce_version=9, max_bytes=1_000_000))

    anna = await client.join_with_id("payments", "anna")
    await asyncio.sleep(2)
    ben = await client.join_with_id("payments", "ben")
    await client.join("payments", "carla")
    await asyncio.sleep(8)
    await client.sync("payments", 1, anna, ben)
    await client.commit("payments", 100, member_id=anna, generation_id=1)
    for _ in range(3):  # ben sends no heartbeat any more
        await asyncio.sleep(4)
        await client.request(c.Heartbeat, "payments", generation_id=1, member_id=anna)
    await client.join("payments", "anna", anna)
    await client.sync("payments", 2, anna)

    responses = await client.join("stock", "dora", instance_id="dora-1")
    await asyncio.sleep(4)
    await client.sync("stock", 1, responses[0].member_id)
    await client.join("stock", "dora", instance_id="dora-1")

    await client.commit("audit", 7)
    producer = transactions.init_producer(ProducerIdentity("tx", -1, -1), 60_000, Cause(api="InitProducerId"))
    assert isinstance(producer, ProducerIdentity)
    for committed in (True, False):
        partition = state.partition_of_group("audit")
        transactions.add_partitions(producer, {"__consumer_offsets": (partition,)}, Cause(api="AddOffsetsToTxn"))
        await client.request(
            c.TxnOffsetCommit,
            "audit",
            producer_id=producer.producer_id,
            offsets=(c.RequestedOffset("orders", 1, 8), c.RequestedOffset("parcels", 0, 1)),
        )
        transactions.end_transaction(producer, committed=committed, bumps_epoch=False, cause=Cause(api="EndTxn"))
        await asyncio.sleep(0.1)


async def write_second_process(client: Client, log: DelayedLog) -> None:
    """Kafka's log commits late, too late, and not at all; the members leave, topics and groups are deleted."""
    state = client.cluster.state
    log.is_delaying = True
    await client.commit("slow", 1)
    log.complete_all()
    await client.commit("slow", 2)
    log.outcome = ErrorCode.NOT_ENOUGH_REPLICAS
    log.complete_all()
    await client.commit("slow", 3)
    await asyncio.sleep(2)
    log.outcome, log.is_delaying = ErrorCode.NONE, False
    log.complete_all()

    [payments] = [group for group in client.cluster.groups() if group.group_id == "payments"]
    await client.request(
        c.LeaveGroup, "payments", members=tuple(c.LeavingMember(each, reason="done") for each in payments.members)
    )
    parcels = state.topics["parcels"]
    state.record_event(TopicDeleted(name="parcels", topic_id=parcels.topic_id), Cause(api="DeleteTopics"))
    await client.request(c.DeleteGroup, "audit")
    [required] = await client.join("stock", "emil")
    await client.request(c.LeaveGroup, "stock", members=(c.LeavingMember(required.member_id),))


async def write_store(path: Path) -> None:
    log = DelayedLog()
    log.is_delaying = False
    async with running_cluster(path, log, first_id=1) as client:
        await write_first_process(client)
    async with running_cluster(path, log, first_id=1000) as client:
        await write_second_process(client, log)


def make_store(path: Path) -> None:
    """Write the store to a new file, with small pages and nothing beside it."""
    large = path.with_name(f"{path.name}.large")
    run_in_virtual_time(write_store(large), VirtualLoop())
    with closing(sqlite3.connect(large)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("VACUUM INTO ?", (str(path),))
    for each in path.parent.glob(f"{large.name}*"):
        each.unlink()


if __name__ == "__main__":
    make_store(Path(sys.argv[1]))
