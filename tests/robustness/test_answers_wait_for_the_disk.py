"""No change is answered before it is durable: another program holds the store's lock, so that no commit can end.

A kill at a random moment seldom falls between an early response and its commit; here it always does.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regroup.protocol.messages import topics as t
from regroup.protocol.messages import transactions as x
from regroup.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from regroup.protocol.messages.describe import DeleteGroupsRequest
from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupRequestProtocol
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.clients.emulator import EmulatorProcess
from tests.clients.processes import Serve
from tests.server.transaction_harness import TransactionalClient
from tests.server.wire_client import TIMEOUT_S, WireClient

EARLY_RESPONSE_S = 0.5
"""Time in which a response that does not wait would come. SQLite waits five seconds for a lock."""
GROUP = "payments"


async def nothing(producer: TransactionalClient) -> None:
    """Nothing has to happen before the change."""


async def commit(producer: TransactionalClient) -> Any:
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=rows)]
    return await producer.call(OffsetCommitRequest(group_id=GROUP, topics=topics), 9)


async def delete_offset(producer: TransactionalClient) -> Any:
    topics = [OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    return await producer.call(OffsetDeleteRequest(group_id=GROUP, topics=topics))


async def delete_group(producer: TransactionalClient) -> Any:
    return await producer.call(DeleteGroupsRequest(groups_names=[GROUP]), 2)


async def ask_for_a_member_id(producer: TransactionalClient) -> Any:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=20_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return await producer.call(request, 9)


async def create_topic(producer: TransactionalClient) -> Any:
    topic = t.CreatableTopic(name="invoices", num_partitions=3, replication_factor=1)
    return await producer.call(t.CreateTopicsRequest(topics=[topic], timeout_ms=1000))


async def create_topic_by_metadata(producer: TransactionalClient) -> Any:
    return await producer.call(MetadataRequest(topics=[MetadataRequestTopic(name="invoices")]))


async def delete_topic(producer: TransactionalClient) -> Any:
    return await producer.call(t.DeleteTopicsRequest(topics=[t.DeleteTopicState(name="orders")], timeout_ms=1000))


async def create_partitions(producer: TransactionalClient) -> Any:
    topic = t.CreatePartitionsTopic(name="orders", count=5)
    return await producer.call(t.CreatePartitionsRequest(topics=[topic], timeout_ms=1000))


async def configure_topic(producer: TransactionalClient) -> Any:
    entry = t.IncrementalAlterConfigsEntry(name="retention.ms", config_operation=0, value="1000")
    resource = t.IncrementalAlterConfigsResource(resource_type=2, resource_name="orders", configs=[entry])
    return await producer.call(t.IncrementalAlterConfigsRequest(resources=[resource]))


async def get_a_producer_id(producer: TransactionalClient) -> Any:
    return await producer.call(x.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 5)


async def begin(producer: TransactionalClient) -> None:
    await producer.begin()


async def begin_and_add(producer: TransactionalClient) -> None:
    await producer.begin()
    assert await producer.add_partitions(0) == [0]
    assert await producer.add_offsets(GROUP) == 0


async def begin_and_write(producer: TransactionalClient) -> None:
    await begin_and_add(producer)
    assert await producer.write(b"value") == 0
    assert await producer.commit_offset(7, group=GROUP) == 0


class Change(NamedTuple):
    """A request that changes something, and what must have happened before it."""

    event: str
    """Type of the event that the response acknowledges."""
    send: Callable[[TransactionalClient], Awaitable[Any]]
    before: Callable[[TransactionalClient], Awaitable[Any]] = nothing
    group: str | None = None


CHANGES = {
    "CreateTopics": Change("topic-created", create_topic),
    "Metadata": Change("topic-created", create_topic_by_metadata),
    "DeleteTopics": Change("topic-deleted", delete_topic),
    "CreatePartitions": Change("partitions-added", create_partitions),
    "IncrementalAlterConfigs": Change("topic-configured", configure_topic),
    "InitProducerId": Change("producer-ids-reserved", get_a_producer_id),
    "InitProducerId of a transactional id": Change("producer-initialized", lambda p: p.init_producer_id()),
    "AddPartitionsToTxn": Change("partitions-added-to-transaction", lambda p: p.add_partitions(0), begin),
    "AddOffsetsToTxn": Change("partitions-added-to-transaction", lambda p: p.add_offsets(GROUP), begin),
    "Produce": Change("offsets-reserved", lambda p: p.write(b"value"), begin_and_add),
    "TxnOffsetCommit": Change(
        "transactional-offsets-written", lambda p: p.commit_offset(7, group=GROUP), begin_and_add, GROUP
    ),
    "EndTxn that commits": Change("transaction-prepared", lambda p: p.end_txn(), begin_and_write),
    "EndTxn that aborts": Change("transaction-prepared", lambda p: p.end_txn(committed=False), begin_and_write),
    "OffsetCommit": Change("offsets-committed", commit, group=GROUP),
    "OffsetDelete": Change("offsets-deleted", delete_offset, commit, GROUP),
    "DeleteGroups": Change("group-deleted", delete_group, commit, GROUP),
    "JoinGroup": Change("pending-member-added", ask_for_a_member_id, group=GROUP),
}


@contextmanager
def no_commit_ends(store: Path) -> Iterator[None]:
    """Hold SQLite's lock for writing."""
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def connected_producer(emulator: EmulatorProcess) -> TransactionalClient:
    return TransactionalClient(await WireClient.connect("127.0.0.1", emulator.port))


def count_of(emulator: EmulatorProcess, change: Change) -> int:
    return len(emulator.events(change.group, kind=change.event))


@pytest.mark.quick("[OffsetCommit]")
@pytest.mark.parametrize("name", CHANGES)
async def test_a_response_waits_for_the_commit_and_survives_a_kill(serve: Serve, name: str) -> None:
    change = CHANGES[name]
    emulator = serve("--topic", "orders:2", "--set", "group.initial.rebalance.delay.ms=0", "--log-level", "error")
    producer = await connected_producer(emulator)
    await change.before(producer)
    before = count_of(emulator, change)
    with no_commit_ends(emulator.store):
        response = asyncio.ensure_future(change.send(producer))
        await asyncio.wait([response], timeout=EARLY_RESPONSE_S)
        assert not response.done(), "the response came before the commit"
        assert count_of(emulator, change) == before
    await asyncio.wait_for(response, TIMEOUT_S)
    emulator.kill()
    await producer.client.close()
    assert count_of(emulator, change) == before + 1
