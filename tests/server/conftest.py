"""Brokers in this process, and their clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from uuid import UUID

import pytest

from regroup.protocol.record_batch import BatchRecord, write_batch
from regroup.server.broker import Broker
from regroup.server.cluster.events import BROKER_START
from regroup.server.cluster.loading import load_cluster_state
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.transaction_coordinator import TransactionCoordinator
from regroup.server.releases import newest_release
from regroup.server.settings import BrokerSettings
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.store import EventStore
from tests.server.cluster_harness import ClusterHarness, running_cluster
from tests.server.group_api_harness import GroupApiHarness, running_group_api
from tests.server.wire_client import NOW_MS, WireClient


class BrokerHarness:
    """A running broker without groups, its parts, and its clients."""

    def __init__(self, store: EventStore, journal: Journal, state: ClusterState, broker: Broker) -> None:
        self.store, self.journal, self.state, self.broker = store, journal, state, broker
        self.clients: list[WireClient] = []

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.broker.address)

    async def connect(self) -> WireClient:
        self.clients.append(await WireClient.connect(*self.broker.address))
        return self.clients[-1]

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        self.state.create_topic(name, partitions, cause=BROKER_START)
        await self.journal.wait_until_durable(self.journal.last_position)


class NoTransactionalOffsets:
    """There are no groups, so no transaction has offsets."""

    def are_loaded(self, partitions: Iterable[int]) -> bool:
        return True

    def end_transaction(self, partitions: Iterable[int], producer_id: int, *, committed: bool) -> None:
        assert not list(partitions)


@asynccontextmanager
async def running_broker(
    store: EventStore | None = None, crash: bool = False, **settings: str
) -> AsyncIterator[BrokerHarness]:
    """With `crash` reserved offsets are not given back at the end, as after a killed process."""
    store = store or MemoryStore()
    ids = count(1)
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    epoch = await store.next_coordinator_epoch()

    def new_uuid() -> UUID:
        return UUID(int=epoch << 64 | next(ids))

    journal = Journal(store)
    state = ClusterState(
        await load_cluster_state(store, new_uuid),
        journal,
        coordinator_epoch=epoch,
        settings=BrokerSettings.from_texts(texts),
        now_ms=lambda: NOW_MS,
        new_uuid=new_uuid,
    )
    transactions = TransactionCoordinator(state, NoTransactionalOffsets())
    transactions.start()
    broker = Broker(state, transactions)
    await broker.start()
    harness = BrokerHarness(store, journal, state, broker)
    try:
        yield harness
    finally:
        await asyncio.gather(*[client.close() for client in harness.clients])
        transactions.stop()
        await broker.close()
        if not crash:
            state.close()
        await journal.close()


@pytest.fixture
def start_broker() -> Callable[..., AbstractAsyncContextManager[BrokerHarness]]:
    """`async with start_broker(num_partitions="3") as harness:`"""
    return running_broker


@pytest.fixture
async def harness() -> AsyncIterator[BrokerHarness]:
    async with running_broker() as running:
        yield running


@pytest.fixture
def make_batch() -> Callable[..., bytes]:
    """Makes a record batch with these values."""

    def make(*values: bytes, at_ms: int = NOW_MS, **header: int) -> bytes:
        return write_batch([BatchRecord(value=value) for value in values], base_timestamp_ms=at_ms, **header)

    return make


@pytest.fixture
async def brokers() -> AsyncIterator[ClusterHarness]:
    async with running_cluster(MemoryStore()) as running:
        yield running


@pytest.fixture
async def group_api() -> AsyncIterator[GroupApiHarness]:
    async with running_group_api(MemoryStore(), newest_release()) as running:
        yield running


@pytest.fixture
async def group_api_of_any_release() -> AsyncIterator[GroupApiHarness]:
    """Serves every version, those too that no release of Apache Kafka 4 has."""
    async with running_group_api(MemoryStore(), None) as running:
        yield running
