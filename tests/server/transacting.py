"""Transactional producers over the wire, and the emulator that they work with."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from regroup.coordinator.settings import Settings
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
from regroup.protocol.record_batch import TRANSACTIONAL, Record, read_all, write_batch
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.settings import BrokerSettings
from regroup.storage.memory import MemoryStore
from tests.server.client import NOW_MS, PATIENCE_S, Client

TIMEOUT_MS = 60_000


class Producer:
    """A transactional producer that speaks in the versions of its time: 1 is before KIP-890, 2 after it."""

    def __init__(self, client: Client, name: str = "t", protocol: int = 1) -> None:
        self.client, self.name, self.protocol = client, name, protocol
        self.id, self.epoch, self._sequence = -1, -1, 0

    @property
    def who(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    async def ask(self, request: Any, version: int | None = None) -> Any:
        return await self.client.call(request, version)

    async def asks_to_begin(self, timeout_ms: int = TIMEOUT_MS, version: int = 5, **claim: int) -> Any:
        request = x.InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms, **claim)
        return await self.ask(request, version)

    async def begins(self, timeout_ms: int = TIMEOUT_MS) -> "Producer":
        """Asks until nothing of an earlier life is in the way."""
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self.asks_to_begin(timeout_ms)).error_code == E.CONCURRENT_TRANSACTIONS:
                pass
        assert answer.error_code == 0
        self.id, self.epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
        return self

    async def adds(self, *partitions: int, topic: str = "orders", version: int = 3) -> list[int]:
        topics = [x.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        if version >= 4:
            transaction = x.AddPartitionsToTxnTransaction(**self.who, topics=topics)
            answer = await self.ask(x.AddPartitionsToTxnRequest(transactions=[transaction]), version)
            (results,) = answer.results_by_transaction[0].topic_results
        else:
            fields = {f"v3_and_below_{name}": value for name, value in self.who.items()}
            answer = await self.ask(x.AddPartitionsToTxnRequest(**fields, v3_and_below_topics=topics), version)
            (results,) = answer.results_by_topic_v3_and_below
        return [each.partition_error_code for each in results.results_by_partition]

    async def writes(self, value: bytes, partition: int = 0, version: int | None = None) -> int:
        batch = write_batch(
            [Record(value=value)],
            base_timestamp_ms=NOW_MS,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self._sequence,
            attributes=TRANSACTIONAL,
        )
        data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1000, topic_data=[data])
        answer = await self.ask(request, version or (12 if self.protocol == 2 else 10))
        code: int = answer.responses[0].partition_responses[0].error_code
        self._sequence += code == 0
        return code

    async def announces(self, group: str, version: int = 3) -> int:
        code: int = (await self.ask(x.AddOffsetsToTxnRequest(**self.who, group_id=group), version)).error_code
        return code

    async def commits(self, offset: int, *, group: str = "g", partition: int = 0, version: int | None = None) -> int:
        wanted = x.TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics = [x.TxnOffsetCommitRequestTopic(name="orders", partitions=[wanted])]
        request = x.TxnOffsetCommitRequest(**self.who, group_id=group, topics=topics)
        answer = await self.ask(request, version or (5 if self.protocol == 2 else 3))
        code: int = answer.topics[0].partitions[0].error_code
        return code

    async def asks_to_end(self, committed: bool = True, version: int | None = None) -> Any:
        request = x.EndTxnRequest(**self.who, committed=committed)
        return await self.ask(request, version or (5 if self.protocol == 2 else 3))

    async def ends(self, committed: bool = True) -> None:
        answer = await self.asks_to_end(committed)
        assert answer.error_code == 0
        if self.protocol == 2:
            self.id, self.epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0


class Stage:
    """A running emulator with topic `orders` of three partitions, and a clock that is moved by hand."""

    def __init__(self, emulator: Emulator, time_s: list[float]) -> None:
        self.emulator, self.time_s, self.clients = emulator, time_s, list[Client]()

    async def onlooker(self) -> Client:
        """The first client of all, who only looks."""
        return self.clients[0] if self.clients else await self.client()

    async def client(self) -> Client:
        self.clients.append(Client(*await asyncio.open_connection(*self.emulator.address)))
        return self.clients[-1]

    async def producer(self, name: str = "t", protocol: int = 1) -> Producer:
        return Producer(await self.client(), name, protocol)

    async def reads(self, partition: int = 0, *, committed: bool = True) -> list[bytes]:
        """The values that a reader gets who passes over what was aborted, as clients do."""
        wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=10_000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=int(committed),
            topics=[FetchTopic(topic="orders", partitions=[wanted])],
        )
        answer = (await (await self.onlooker()).call(request, 12)).responses[0].partitions[0]
        assert answer.error_code == 0
        skipped = {each.first_offset for each in answer.aborted_transactions or ()}
        return [
            record.value for at, record in read_all(answer.records or b"") if at not in skipped and record.key is None
        ]

    async def stands_at(self, group: str = "g", *, stable: bool = False) -> tuple[int, int]:
        """Offset and code of partition 0."""
        topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable
        )
        (row,) = (await (await self.onlooker()).call(request, 9)).groups[0].topics[0].partitions
        return row.committed_offset, row.error_code

    async def settles(self) -> None:
        """No open transaction holds anything back in group `g`."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self.stands_at(stable=True))[1]:
                pass


@asynccontextmanager
async def on_stage(store: MemoryStore | None = None, **settings: str) -> AsyncIterator[Stage]:
    store, ids, time_s = store or MemoryStore(), itertools.count(1), [0.0]
    reign = await store.next_reign()
    emulator = Emulator(
        store.open,
        clock=Clock(started_at_ms=NOW_MS, monotonic_s=lambda: time_s[0]),
        new_uuid=lambda: UUID(int=reign << 64 | next(ids)),
        settings=Settings(group_initial_rebalance_delay_ms=0),
        broker_settings=BrokerSettings.from_texts({name.replace("_", "."): text for name, text in settings.items()}),
    )
    await emulator.start()
    await emulator.ensure_topic("orders", 3)
    stage = Stage(emulator, time_s)
    yield stage
    await asyncio.gather(*[client.close() for client in stage.clients])
    await emulator.close()


async def take_part(producer: Producer, value: bytes, offset: int) -> None:
    """Write one record and one offset, after saying so where the protocol wants it said."""
    if producer.protocol == 1:
        assert await producer.adds(0) == [0]
        assert await producer.announces("g") == 0
    assert await producer.writes(value) == 0
    assert await producer.commits(offset) == 0
