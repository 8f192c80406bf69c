"""Every event, once it is durable, to whoever listens; in nobody's way.

The feed reads the store behind the journal, so there is no buffer that could fill: a broker that is slow or absent
finds everything in the store when it is back. The last position that a broker has acknowledged is kept in the store,
and the feed goes on from there; what was on its way then comes twice, with the same position and number.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import aiomqtt

from regroup.mqtt.link import Outgoing, publish_all
from regroup.mqtt.topics import Topics
from regroup.server.mqtt.again import Again
from regroup.server.mqtt.messages import by_group, feed_payloads
from regroup.server.mqtt.summaries import Summaries
from regroup.storage.errors import PositionTrimmed, StoreError
from regroup.storage.journal import Journal
from regroup.storage.records import Record

MOST_AT_ONCE: Final = 1_000
"""Events that are read, and published, before the broker must have acknowledged all of them."""
KEEP_EVERY_S: Final = 1.0
"""How old the kept position may be: so much is told twice after the coordinator's sudden death."""
STORE_PAUSE_S: Final = 0.5
"""Between two tries to read a store that has failed."""
STATES_EVERY_S: Final = 0.2
"""Summaries come no more often than that, whatever happens to a group."""
FEW: Final = 20
"""Where no more events than these came while some were published, the coordinator has time to spare."""
REST: Final = 3
LONGEST_REST_S: Final = 0.25
KEPT_AS: Final = "mqtt-feed"


class Feed:
    """One cluster's feed. `run` is called for each connection to the broker."""

    def __init__(
        self, journal: Journal, topics: Topics, summaries: Summaries, *, refuse: Callable[[str], object]
    ) -> None:
        self._journal = journal
        self._topics = topics
        self._summaries = summaries
        self._refuse = refuse
        self._news = asyncio.Event()
        self._progress = asyncio.Event()
        self._awaited = 0
        self._kept = 0
        self._kept_at_s = self._stated_at_s = float("-inf")
        self.position = 0
        """The last that the broker has acknowledged."""
        self.again = Again(topics, self._news.set, refuse)

    def wake(self) -> None:
        """There is something to publish that is not in the journal."""
        self._news.set()

    async def load(self) -> None:
        """Where it goes on. A store that was never fed from begins with its first event. StoreError."""
        kept = await self._journal.store.kept(KEPT_AS)
        self.position = self._kept = int(kept) if kept else 0

    async def told(self, position: int) -> None:
        """Wait until the broker has acknowledged everything up to this position."""
        while self.position < position:
            self._progress.clear()
            await self._progress.wait()

    async def run(self, client: aiomqtt.Client) -> None:
        """Until the connection is lost."""
        while True:
            began_s, began_at = asyncio.get_running_loop().time(), self._journal.last_position
            self._news.clear()
            try:
                is_idle = await self._round(client)
            except PositionTrimmed as trimmed:
                self._skip(trimmed.trimmed_through)
            except StoreError:
                await asyncio.sleep(STORE_PAUSE_S)
            else:
                if self._journal.last_position - began_at > FEW:
                    # The coordinator is at work in this thread, and what comes meanwhile will go together.
                    worked_s = asyncio.get_running_loop().time() - began_s
                    await asyncio.sleep(min(worked_s * REST, LONGEST_REST_S))
                if is_idle:
                    await self._wait()

    def _skip(self, through: int) -> None:
        """What has been trimmed, nobody can be told any more. It may also have been a request for old events."""
        if through > self.position:
            self._refuse(f"events up to position {through} were trimmed before they were published")
            self.position = through

    async def _round(self, client: aiomqtt.Client) -> bool:
        """Tell what is new, then what was asked for. Whether there was nothing more to do."""
        records = await self._read()
        if records:
            await publish_all(client, self._messages(records))
            self.position = records[-1].position
            self._progress.set()
        is_behind = len(records) == MOST_AT_ONCE
        if self._is_time(self._stated_at_s, STATES_EVERY_S):
            await self._publish_states(client)
        if self.position != self._kept and self._is_time(self._kept_at_s, KEEP_EVERY_S):
            await self.keep()
        if self.again.is_wanted:
            await publish_all(client, await self.again.portion(self._journal.store, self.position))
        return not (is_behind or self.again.is_wanted)

    async def _read(self) -> list[Record]:
        reading = self._journal.store.read(after=self.position, until=self.position + MOST_AT_ONCE)
        return [record async for record in reading]

    def _messages(self, records: list[Record]) -> Iterator[Outgoing]:
        """Those of one group in one message, if there is room."""
        grouped = by_group(records)
        self._summaries.changed(group for group in grouped if group is not None)
        for group, some in grouped.items():
            topic = self._topics.group(group, "events")
            yield from (Outgoing(topic, payload) for payload in feed_payloads(group, some))

    async def _publish_states(self, client: aiomqtt.Client) -> None:
        states = self._summaries.due(self.position)
        if states:
            self._stated_at_s = asyncio.get_running_loop().time()
        try:
            topics = ((self._topics.group(group, "state"), payload) for group, payload in states.items())
            await publish_all(client, (Outgoing(topic, payload, retain=True) for topic, payload in topics))
        except BaseException:
            self._summaries.changed(states)
            raise

    def _is_time(self, last_s: float, every_s: float) -> bool:
        return asyncio.get_running_loop().time() - last_s >= every_s

    async def keep(self) -> None:
        """Remember what was acknowledged. StoreError."""
        if self.position != self._kept:
            position = self.position
            self._kept_at_s = asyncio.get_running_loop().time()
            await self._journal.store.keep(KEPT_AS, str(position).encode())
            self._kept = position

    async def _wait(self) -> None:
        """For the next durable event, for a request, or until a summary is due or the position has to be kept."""
        if self._awaited <= self.position:
            self._awaited = self.position + 1
            self._journal.when_durable(self._awaited, self._news.set, self._lost)
        with suppress(TimeoutError):
            is_later = KEEP_EVERY_S if self.position != self._kept else None
            async with asyncio.timeout(STATES_EVERY_S if self._summaries.are_pending else is_later):
                await self._news.wait()

    def _lost(self) -> None:
        """The store has failed: look again when it may be back."""
        self._awaited = 0
        asyncio.get_running_loop().call_later(STORE_PAUSE_S, self._news.set)
