"""A broker in this process, and its clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count
from uuid import UUID

import pytest

from regroup.protocol.record_batch import Record, write_batch
from regroup.server.broker import Broker
from regroup.server.cluster.causes import START
from regroup.server.cluster.state import Cluster, load
from regroup.server.cluster.transaction_coordinator import TransactionCoordinator
from regroup.server.settings import BrokerSettings
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.store import EventStore
from tests.server.client import NOW_MS, Client, until
from tests.server.company import Company, gathered
from tests.server.door import Door, opened


class Served:
    """A running broker and what it stands on."""

    def __init__(self, store: EventStore, journal: Journal, cluster: Cluster, broker: Broker) -> None:
        self.store, self.journal, self.cluster, self.broker = store, journal, cluster, broker
        self.clients: list[Client] = []

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.broker.address)

    async def connect(self) -> Client:
        self.clients.append(Client(*await asyncio.open_connection(*self.broker.address)))
        return self.clients[-1]

    async def until(self, condition: Callable[[], object]) -> None:
        """Let the broker work until this holds."""
        await until(condition)

    async def topic(self, name: str, partitions: int = 1) -> None:
        self.cluster.create_topic(name, partitions, cause=START)
        await self.journal.durable(self.journal.last_position)


class NoOffsets:
    """There are no groups here, so no transaction has offsets to settle."""

    def can_settle(self, partitions: Iterable[int]) -> bool:
        return True

    def settle(self, partitions: Iterable[int], producer_id: int, *, committed: bool) -> None:
        assert not list(partitions)


Serve = Callable[..., "asyncio._AsyncGeneratorContextManager[Served]"]


@asynccontextmanager
async def serving(store: EventStore | None = None, crash: bool = False, **settings: str) -> AsyncIterator[Served]:
    """`crash`: nothing is given back at the end, as if the process had been killed."""
    store = store or MemoryStore()
    ids = count(1)
    by_name = {name.replace("_", "."): value for name, value in settings.items()}
    reign = await store.next_reign()

    def new_uuid() -> UUID:
        return UUID(int=reign << 64 | next(ids))

    journal = Journal(store)
    cluster = Cluster(
        await load(store, new_uuid),
        journal,
        reign=reign,
        settings=BrokerSettings.from_texts(by_name),
        now_ms=lambda: NOW_MS,
        new_uuid=new_uuid,
    )
    transactions = TransactionCoordinator(cluster, NoOffsets())
    transactions.start()
    broker = Broker(cluster, transactions)
    await broker.start()
    served = Served(store, journal, cluster, broker)
    try:
        yield served
    finally:
        await asyncio.gather(*[client.close() for client in served.clients])
        transactions.stop()
        await broker.close()
        if not crash:
            cluster.close()
        await journal.close()


@pytest.fixture
def serve() -> Callable[..., object]:
    """`async with serve(num_partitions="3") as served:`"""
    return serving


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running


@pytest.fixture
def a_batch() -> Callable[..., bytes]:
    """A record batch with these values."""

    def make(*values: bytes, at_ms: int = NOW_MS, **header: int) -> bytes:
        return write_batch([Record(value=value) for value in values], base_timestamp_ms=at_ms, **header)

    return make


@pytest.fixture
async def company() -> AsyncIterator[Company]:
    async with gathered(MemoryStore()) as ready:
        yield ready


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened(MemoryStore()) as ready:
        yield ready
