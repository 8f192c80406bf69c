"""Transactional producers over the wire, and the cluster that they write to."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages import transactions as x
from regroup.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from regroup.protocol.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from regroup.protocol.record_batch import TRANSACTIONAL, BatchRecord, write_batch
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.server.clock import Clock
from regroup.storage.memory import MemoryStore
from tests.fetched_records import read_all_records
from tests.server.cluster_harness import NO_DELAY
from tests.server.wire_client import NOW_MS, TIMEOUT_S, WireClient

TIMEOUT_MS = 60_000


class TransactionalClient:
    """A transactional producer. `protocol` 1 uses the request versions before KIP-890, 2 those since."""

    def __init__(self, client: WireClient, name: str = "t", protocol: int = 1) -> None:
        self.client, self.name, self.protocol = client, name, protocol
        self.id, self.epoch, self._sequence = -1, -1, 0

    @property
    def identity(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    async def call(self, request: Any, version: int | None = None) -> Any:
        return await self.client.call(request, version)

    async def init_producer_id(self, timeout_ms: int = TIMEOUT_MS, version: int = 5, **claim: int) -> Any:
        request = x.InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms, **claim)
        return await self.call(request, version)

    async def begin(self, timeout_ms: int = TIMEOUT_MS) -> "TransactionalClient":
        """Get an id and epoch; try again while an earlier transaction is being completed."""
        async with asyncio.timeout(TIMEOUT_S):
            while (answer := await self.init_producer_id(timeout_ms)).error_code == E.CONCURRENT_TRANSACTIONS:
                pass
        assert answer.error_code == 0
        self.id, self.epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
        return self

    async def add_partitions(self, *partitions: int, topic: str = "orders", version: int = 3) -> list[int]:
        (codes,) = await self.add_topics([x.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))], version)
        return codes

    async def add_topics(self, topics: list[x.AddPartitionsToTxnTopic], version: int) -> list[list[int]]:
        """The error codes of the partitions of each topic."""
        if version >= 4:
            transaction = x.AddPartitionsToTxnTransaction(**self.identity, topics=topics)
            answer = await self.call(x.AddPartitionsToTxnRequest(transactions=[transaction]), version)
            results = answer.results_by_transaction[0].topic_results
        else:
            fields = {f"v3_and_below_{name}": value for name, value in self.identity.items()}
            answer = await self.call(x.AddPartitionsToTxnRequest(**fields, v3_and_below_topics=topics), version)
            results = answer.results_by_topic_v3_and_below
        return [[each.partition_error_code for each in topic.results_by_partition] for topic in results]

    async def write(self, value: bytes, partition: int = 0, version: int | None = None) -> int:
        batch = write_batch(
            [BatchRecord(value=value)],
            base_timestamp_ms=NOW_MS,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self._sequence,
            attributes=TRANSACTIONAL,
        )
        data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1000, topic_data=[data])
        answer = await self.call(request, version or (12 if self.protocol == 2 else 10))
        code: int = answer.responses[0].partition_responses[0].error_code
        self._sequence += code == 0
        return code

    async def add_offsets(self, group: str, version: int = 3) -> int:
        code: int = (await self.call(x.AddOffsetsToTxnRequest(**self.identity, group_id=group), version)).error_code
        return code

    async def commit_offset(
        self, offset: int, *, group: str = "g", partition: int = 0, version: int | None = None
    ) -> int:
        wanted = x.TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics = [x.TxnOffsetCommitRequestTopic(name="orders", partitions=[wanted])]
        request = x.TxnOffsetCommitRequest(**self.identity, group_id=group, topics=topics)
        answer = await self.call(request, version or (5 if self.protocol == 2 else 3))
        code: int = answer.topics[0].partitions[0].error_code
        return code

    async def end_txn(self, committed: bool = True, version: int | None = None) -> Any:
        request = x.EndTxnRequest(**self.identity, committed=committed)
        return await self.call(request, version or (5 if self.protocol == 2 else 3))

    async def end(self, committed: bool = True) -> None:
        answer = await self.end_txn(committed)
        assert answer.error_code == 0
        if self.protocol == 2:
            self.id, self.epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0


class TransactionHarness:
    """A running cluster with topic `orders` of three partitions, and a clock that the test sets."""

    def __init__(self, cluster: BrokerCluster, time_s: list[float]) -> None:
        self.cluster, self.time_s, self.clients = cluster, time_s, list[WireClient]()

    async def reader_client(self) -> WireClient:
        """The first client, which only reads."""
        return self.clients[0] if self.clients else await self.client()

    async def client(self) -> WireClient:
        self.clients.append(await WireClient.connect(*self.cluster.address))
        return self.clients[-1]

    async def producer(self, name: str = "t", protocol: int = 1) -> TransactionalClient:
        return TransactionalClient(await self.client(), name, protocol)

    async def read_values(self, partition: int = 0, *, committed: bool = True) -> list[bytes]:
        """The values that a consumer reads; it skips aborted transactions, as clients do."""
        wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=10_000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=int(committed),
            topics=[FetchTopic(topic="orders", partitions=[wanted])],
        )
        answer = (await (await self.reader_client()).call(request, 12)).responses[0].partitions[0]
        assert answer.error_code == 0
        skipped = {each.first_offset for each in answer.aborted_transactions or ()}
        return [
            record.value
            for at, record in read_all_records(answer.records or b"")
            if at not in skipped and record.key is None
        ]

    async def committed_offset(self, group: str = "g", *, stable: bool = False) -> tuple[int, int]:
        """Offset and error code of partition 0."""
        topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable
        )
        (row,) = (await (await self.reader_client()).call(request, 9)).groups[0].topics[0].partitions
        return row.committed_offset, row.error_code

    async def wait_until_stable(self) -> None:
        """Wait until group `g` has no pending transactional offset."""
        async with asyncio.timeout(TIMEOUT_S):
            while (await self.committed_offset(stable=True))[1]:
                pass


@asynccontextmanager
async def running_transactions(store: MemoryStore | None = None) -> AsyncIterator[TransactionHarness]:
    store, ids, time_s = store or MemoryStore(), itertools.count(1), [0.0]
    epoch = await store.next_coordinator_epoch()
    environment = ClusterEnvironment(
        clock=Clock(started_at_ms=NOW_MS, monotonic_s=lambda: time_s[0]),
        new_uuid=lambda: UUID(int=epoch << 64 | next(ids)),
    )
    async with await BrokerCluster.start(store.open, ClusterOptions(settings=NO_DELAY), environment) as cluster:
        await cluster.ensure_topic("orders", 3)
        harness = TransactionHarness(cluster, time_s)
        yield harness
        await asyncio.gather(*[client.close() for client in harness.clients])


async def write_and_commit(producer: TransactionalClient, value: bytes, offset: int) -> None:
    """Write one record and commit one offset; before KIP-890 partition and group must be added first."""
    if producer.protocol == 1:
        assert await producer.add_partitions(0) == [0]
        assert await producer.add_offsets("g") == 0
    assert await producer.write(value) == 0
    assert await producer.commit_offset(offset) == 0
