"""The feed: publishes every durable event over MQTT, without slowing the coordinator.

The feed reads the store behind the journal, so there is no buffer that could overflow: while the MQTT broker is slow or
disconnected, the events wait in the store. The last position that the broker has acknowledged is saved in the store,
and the feed continues behind it; events in flight are then published twice, with the same position and event number.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import aiomqtt

from regroup.coordinator.serialization import damaged
from regroup.coordinator.topics import TopicsImage
from regroup.mqtt.link import MqttMessage, publish_all
from regroup.mqtt.topics import MqttTopics
from regroup.server.mqtt.messages import feed_payloads, group_records, topic_names_payload
from regroup.server.mqtt.replay_requests import ReplayRequests
from regroup.server.mqtt.summaries import Summaries
from regroup.storage.errors import PositionTrimmed, StoreError
from regroup.storage.journal import Journal
from regroup.storage.records import Record

MAX_EVENTS_PER_ROUND: Final = 1_000
"""How many events are read and published before the broker must have acknowledged all of them."""
POSITION_SAVE_INTERVAL_S: Final = 1.0
"""Seconds between two saves of the position: after a crash the events of this time are published twice."""
STORE_RETRY_DELAY_S: Final = 0.5
"""Seconds before the feed reads again from a store that has failed."""
SUMMARY_INTERVAL_S: Final = 0.2
"""Shortest time, in seconds, between two publications of summaries."""
IDLE_EVENT_COUNT: Final = 20
"""If more events than this are stored during one round of the feed, the coordinator counts as busy."""
PAUSE_FACTOR: Final = 3
"""While the coordinator is busy, the feed pauses after each round, this many times as long as the round took."""
MAX_PAUSE_S: Final = 0.25
POSITION_KEY: Final = "mqtt-feed"
"""The key under which the store keeps the feed's position."""


class Feed:
    """Publishes the events of one cluster over MQTT. `run` is called for each connection to the MQTT broker and
    publishes until that connection is lost."""

    def __init__(
        self,
        journal: Journal,
        topics: MqttTopics,
        summaries: Summaries,
        topics_image: Callable[[], TopicsImage],
        *,
        log_refusal: Callable[[str], object],
    ) -> None:
        self._topics_image = topics_image
        self._published_image: TopicsImage | None = None
        """The topics whose names were published last over the present connection."""
        self._journal = journal
        self._topics = topics
        self._summaries = summaries
        self._log_refusal = log_refusal
        self._has_work = asyncio.Event()
        self._progress = asyncio.Event()
        self._awaited_position = 0
        self._saved_position = 0
        self._saved_at_s = self._summaries_at_s = float("-inf")
        self.position = 0
        """Position in the store of the last event that the MQTT broker has acknowledged."""
        self.replay_requests = ReplayRequests(topics, self._has_work.set, log_refusal)

    def wake(self) -> None:
        """Make the feed look for messages to publish although no new event is durable, for example because a group's
        summary has changed."""
        self._has_work.set()

    async def load(self) -> None:
        """Load the position of the last published event from the store. If the store has none, publishing begins with
        the first event. Raises StoreError."""
        store = self._journal.store
        saved = await store.get_value(POSITION_KEY) or b"0"
        if not saved.isdigit():
            raise damaged("The position of the MQTT feed", ValueError(repr(saved)))
        # The store may have been replaced by an older copy of itself.
        self.position = self._saved_position = min(int(saved[:20]), store.last_position)

    async def wait_until_published(self, position: int) -> None:
        """Wait until the MQTT broker has acknowledged the messages with all events up to this position."""
        while self.position < position:
            self._progress.clear()
            await self._progress.wait()

    async def run(self, client: aiomqtt.Client) -> None:
        """Publish events, summaries and replays over this connection, until it is lost."""
        loop = asyncio.get_running_loop()
        self._published_image = None
        while True:
            began_s, began_position = loop.time(), self._journal.last_position
            self._has_work.clear()
            try:
                is_idle = await self._publish_round(client)
            except PositionTrimmed as error:
                self._skip_trimmed(error.trimmed_through)
            except StoreError:
                await asyncio.sleep(STORE_RETRY_DELAY_S)
            else:
                if self._journal.last_position - began_position > IDLE_EVENT_COUNT:
                    # Feed and coordinator share a thread; events of the meantime are published together.
                    await asyncio.sleep(min((loop.time() - began_s) * PAUSE_FACTOR, MAX_PAUSE_S))
                if is_idle:
                    await self._wait_for_work()

    def _skip_trimmed(self, trimmed_through: int) -> None:
        """Continue after the position `trimmed_through`, because those events were trimmed before the feed has
        published them. The gap is reported in the log."""
        if trimmed_through > self.position:
            self._log_refusal(f"events up to position {trimmed_through} were trimmed before they were published")
            self.position = trimmed_through

    async def _publish_round(self, client: aiomqtt.Client) -> bool:
        """Publish new events, the names of topics before them, due summaries, and a portion of the requested replays.
        Returns whether nothing is left to do."""
        reading = self._journal.store.read(after=self.position, until=self.position + MAX_EVENTS_PER_ROUND)
        records = [record async for record in reading]
        # The names are never older than the records that were read, so a new topic is named before its events.
        await self._publish_topic_names(client)
        if records:
            await publish_all(client, self._messages(records))
            self.position = records[-1].position
            self._progress.set()
        now_s = asyncio.get_running_loop().time
        if now_s() - self._summaries_at_s >= SUMMARY_INTERVAL_S:
            await self._publish_summaries(client)
        if self.position != self._saved_position and now_s() - self._saved_at_s >= POSITION_SAVE_INTERVAL_S:
            await self.save_position()
        if self.replay_requests.is_pending:
            messages = await self.replay_requests.next_messages(self._journal.store, self.position)
            await publish_all(client, messages)
        return len(records) < MAX_EVENTS_PER_ROUND and not self.replay_requests.is_pending

    async def _publish_topic_names(self, client: aiomqtt.Client) -> None:
        """Publish the names of the topics if these have changed."""
        image = self._topics_image()
        if image is not self._published_image:
            message = MqttMessage(self._topics.topic_names, topic_names_payload(image), retain=True)
            await publish_all(client, [message])
            self._published_image = image

    def _messages(self, records: list[Record]) -> Iterator[MqttMessage]:
        """The messages that publish these records: one for each group, or several if its events exceed the size of one
        message."""
        grouped = group_records(records)
        self._summaries.note_published(records)
        for group, some in grouped.items():
            topic = self._topics.group(group, "events")
            yield from (MqttMessage(topic, payload) for payload in feed_payloads(group, some))

    async def _publish_summaries(self, client: aiomqtt.Client) -> None:
        due = self._summaries.take_due(self.position)
        if due:
            self._summaries_at_s = asyncio.get_running_loop().time()
        try:
            await publish_all(
                client,
                (
                    MqttMessage(self._topics.group(group, "state"), payload, retain=True)
                    for group, payload in due.items()
                ),
            )
        except BaseException:
            self._summaries.mark_changed(due)
            raise

    async def save_position(self) -> None:
        """Save in the store the position of the last event whose message the MQTT broker has acknowledged. Raises
        StoreError."""
        if self.position != self._saved_position:
            position = self.position
            self._saved_at_s = asyncio.get_running_loop().time()
            await self._journal.store.put_value(POSITION_KEY, str(position).encode())
            self._saved_position = position

    async def _wait_for_work(self) -> None:
        """Wait for a durable event, a replay request, a due summary, or the next save of the position."""
        if self._awaited_position <= self.position:
            self._awaited_position = self.position + 1
            self._journal.when_durable(self._awaited_position, self._has_work.set, self._on_store_failure)
        save_timeout_s = POSITION_SAVE_INTERVAL_S if self.position != self._saved_position else None
        with suppress(TimeoutError):
            async with asyncio.timeout(SUMMARY_INTERVAL_S if self._summaries.is_pending else save_timeout_s):
                await self._has_work.wait()

    def _on_store_failure(self) -> None:
        """Let the feed read the store again after a delay, because the store may have been reopened by then."""
        self._awaited_position = 0
        asyncio.get_running_loop().call_later(STORE_RETRY_DELAY_S, self._has_work.set)
