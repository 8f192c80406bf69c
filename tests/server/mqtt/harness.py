"""A broker cluster on MQTT in this process, and a listener to its feed."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import aiomqtt
import msgspec

from regroup.coordinator import commands as c
from regroup.coordinator.settings import CoordinatorSettings
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.mqtt.link import MqttLink, cancel_and_wait, run_until_first_ends
from regroup.mqtt.topics import MqttTopics
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.mqtt.group_summary import GroupSummary
from regroup.server.mqtt.messages import FeedEvent, FeedMessage
from regroup.server.mqtt.reader import FeedReader
from regroup.server.mqtt.service import MqttService
from regroup.storage.memory import MemoryStore
from regroup.storage.store import EventStore

TIMEOUT_S = 40.0
"""Longer than any step takes on a busy machine."""


def timeout() -> asyncio.Timeout:
    """`async with timeout():` fails instead of waiting for ever."""
    return asyncio.timeout(TIMEOUT_S)


def new_incarnation() -> str:
    return uuid4().hex


async def wait_until(condition: Callable[[], object]) -> None:
    """Run the event loop until the condition holds."""
    async with timeout():
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running_cluster(store: EventStore | None = None, *, brokers: int = 1) -> AsyncIterator[BrokerCluster]:
    opened = store or MemoryStore()

    async def open_store() -> EventStore:
        return opened

    options = ClusterOptions(settings=CoordinatorSettings(group_initial_rebalance_delay_ms=0), brokers=brokers)
    async with await BrokerCluster.start(open_store, options) as cluster:
        yield cluster


@asynccontextmanager
async def running_service(
    cluster: BrokerCluster, address: MqttAddress, *, remove_on_last_will: bool = False
) -> AsyncIterator[MqttService]:
    service = MqttService(
        cluster,
        address,
        MqttAccess(),
        new_incarnation=new_incarnation,
        remove_on_last_will=remove_on_last_will,
    )
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def commit(cluster: BrokerCluster, group: str, offset: int = 1) -> None:
    """Add one event to a group without members."""
    offsets = (c.RequestedOffset("orders", 0, offset),)
    command = c.OffsetCommit(group_id=group, at_ms=cluster.state.now_ms(), offsets=offsets)
    cluster.coordinator_of(group).submit(command)


class FeedListener:
    """Receives the feed, and requests missing events again; it ends with every event once."""

    def __init__(self, address: MqttAddress) -> None:
        self._topics = MqttTopics(address.cluster)
        self._address = address
        self._reader = FeedReader()
        self.events: dict[str | None, list[FeedEvent]] = defaultdict(list)
        self.states: dict[str, GroupSummary | None] = {}
        """Summaries by topic; None for a cleared one."""
        self.messages: list[FeedMessage] = []
        self.replay_requests: list[tuple[str | None, int]] = []
        """Groups and event numbers that it has requested again."""
        self.is_listening = asyncio.Event()

    @property
    def count(self) -> int:
        return sum(len(events) for events in self.events.values())

    async def wait_for_events(self, count: int) -> None:
        """Wait until this many events were received."""
        await wait_until(lambda: self.count >= count)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["FeedListener"]:
        link = MqttLink(self._address, MqttAccess(), report=lambda text: None)
        running = asyncio.create_task(link.run(self._session))
        await asyncio.wait_for(self.is_listening.wait(), TIMEOUT_S)
        try:
            yield self
        finally:
            await cancel_and_wait(running)

    async def _session(self, client: aiomqtt.Client) -> None:
        groups = self._topics.all_groups
        topics = [f"{groups}/events", f"{groups}/state", self._topics.group(None, "events")]
        await client.subscribe([(topic, 1) for topic in topics])
        self.is_listening.set()
        await run_until_first_ends(self._receive(client), self._request_missing(client))

    async def _receive(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            if message.topic.value.endswith("/state"):
                self._receive_state(message.topic.value, message.payload)
            else:
                feed_message = msgspec.json.decode(message.payload, type=FeedMessage)
                self.messages.append(feed_message)
                self.events[feed_message.group] += self._reader.accept(feed_message)

    def _receive_state(self, topic: str, payload: bytes) -> None:
        self.states[topic] = summary = msgspec.json.decode(payload, type=GroupSummary) if payload else None
        if summary is not None:
            self._reader.note_event_number(summary.group, summary.event_number)

    async def _request_missing(self, client: aiomqtt.Client) -> None:
        while True:
            await asyncio.sleep(0.3)
            for group, number in list(self._reader.gaps()):
                self.replay_requests.append((group, number))
                request = msgspec.json.encode({"from": number})
                await client.publish(self._topics.group(group, "replay"), request, qos=1)


async def first_message(address: MqttAddress, topic: str) -> bytes:
    """The first message on a topic: the retained one, if there is one."""
    async with timeout(), aiomqtt.Client(address.host, address.port) as client:
        await client.subscribe(topic, qos=1)
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            return message.payload
    raise AssertionError(f"no message on {topic}")
