"""An emulator on MQTT in this process, and somebody who listens to it."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import aiomqtt
import msgspec

from regroup.coordinator import commands as c
from regroup.coordinator.settings import Settings
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.mqtt.link import MqttLink, cancelled, together
from regroup.mqtt.topics import Topics
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.mqtt.messages import FeedEvent, FeedMessage
from regroup.server.mqtt.reader import FeedReader
from regroup.server.mqtt.service import MqttService
from regroup.server.mqtt.summaries import GroupSummary
from regroup.storage.memory import MemoryStore
from regroup.storage.store import EventStore

PATIENCE_S = 40.0
"""For whatever is sure to come, however busy the machine is."""


def patience() -> asyncio.Timeout:
    """`async with patience():` fails where one would wait for ever."""
    return asyncio.timeout(PATIENCE_S)


def new_incarnation() -> str:
    return uuid4().hex


async def until(condition: Callable[[], object]) -> None:
    """Let the others work until this holds."""
    async with patience():
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def emulating(store: EventStore | None = None, *, brokers: int = 1, **settings: int) -> AsyncIterator[Emulator]:
    kept = store or MemoryStore()

    async def open_store() -> EventStore:
        return kept

    emulator = Emulator(
        open_store,
        clock=Clock(started_at_ms=time.time_ns() // 1_000_000, monotonic_s=time.monotonic),
        new_uuid=uuid4,
        settings=Settings(group_initial_rebalance_delay_ms=0, **settings),
        brokers=brokers,
    )
    await emulator.start()
    try:
        yield emulator
    finally:
        await emulator.close()


@asynccontextmanager
async def served(emulator: Emulator, address: MqttAddress, *, expels: bool = False) -> AsyncIterator[MqttService]:
    service = MqttService(emulator, address, MqttAccess(), new_incarnation=new_incarnation, expels=expels)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def commit(emulator: Emulator, group: str, offset: int = 1) -> None:
    """One more event of a group that has no members."""
    offsets = (c.OffsetToCommit("orders", 0, offset),)
    command = c.CommitOffsets(group_id=group, at_ms=emulator.cluster.now_ms(), offsets=offsets)
    emulator.shares.coordinators[0].submit(command)


class Reader:
    """Ends with every event once, whatever the broker lost. `asks` is what it asked for again."""

    def __init__(self, address: MqttAddress) -> None:
        self._topics = Topics(address.cluster)
        self._address = address
        self._reader = FeedReader()
        self.events: dict[str | None, list[FeedEvent]] = defaultdict(list)
        self.states: dict[str, GroupSummary | None] = {}
        self.messages: list[FeedMessage] = []
        self.asks: list[tuple[str | None, int]] = []
        self.is_listening = asyncio.Event()

    @property
    def count(self) -> int:
        return sum(len(events) for events in self.events.values())

    async def has(self, count: int) -> None:
        """Wait until so many events have come."""
        await until(lambda: self.count >= count)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Reader"]:
        link = MqttLink(self._address, MqttAccess(), tell=lambda text: None)
        running = asyncio.create_task(link.run(self._session))
        await asyncio.wait_for(self.is_listening.wait(), PATIENCE_S)
        try:
            yield self
        finally:
            await cancelled(running)

    async def _session(self, client: aiomqtt.Client) -> None:
        groups = self._topics.all_groups
        topics = [f"{groups}/events", f"{groups}/state", self._topics.group(None, "events")]
        await client.subscribe([(topic, 1) for topic in topics])
        self.is_listening.set()
        await together(self._listen(client), self._ask(client))

    async def _listen(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            if message.topic.value.endswith("/state"):
                self._hear_state(message.topic.value, message.payload)
            else:
                told = msgspec.json.decode(message.payload, type=FeedMessage)
                self.messages.append(told)
                self.events[told.group] += self._reader.take(told)

    def _hear_state(self, topic: str, payload: bytes) -> None:
        self.states[topic] = summary = msgspec.json.decode(payload, type=GroupSummary) if payload else None
        if summary is not None:
            self._reader.heard_of(summary.group, summary.number)

    async def _ask(self, client: aiomqtt.Client) -> None:
        while True:
            await asyncio.sleep(0.3)
            for group, number in list(self._reader.missing()):
                self.asks.append((group, number))
                request = msgspec.json.encode({"from": number})
                await client.publish(self._topics.group(group, "again"), request, qos=1)


async def first_message(address: MqttAddress, topic: str) -> bytes:
    """What comes first on a topic: the retained message, if there is one."""
    async with patience(), aiomqtt.Client(address.host, address.port) as client:
        await client.subscribe(topic, qos=1)
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            return message.payload
    raise AssertionError(f"nothing on {topic}")
