"""Events that somebody asks for once more, since a broker lost them or a reader came late."""

from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from regroup.mqtt.link import Outgoing
from regroup.mqtt.topics import Topics
from regroup.server.mqtt.messages import MOST_REQUEST_BYTES, AgainRequest, FeedMessage, feed_payloads
from regroup.storage.records import Record
from regroup.storage.store import EventStore

MOST_REQUESTS: Final = 1_000
"""Groups that may wait for their turn at once."""
PORTION: Final = 1_000
"""Records read at once; other groups, and new events, have their turn in between."""


class _Request:
    """One group's events from a number on, read portion by portion. Between two of them no transaction is open."""

    def __init__(self, group: str | None, number: int) -> None:
        self.group = group
        self.number = number
        self.first = 0
        """The earliest number that is still there."""
        self.is_over = False
        self._records: AsyncIterator[Record] | None = None

    async def portion(self, store: EventStore, told: int) -> list[Record]:
        if self._records is None:
            self._records = store.read(group=self.group, after=store.trimmed_through, until=told)
        read: list[Record] = []
        self.is_over = True
        async for record in self._records:
            self.first = self.first or record.number
            read.append(record)
            if len(read) == PORTION:
                self.is_over = False
                break
        return [record for record in read if record.number >= self.number]


class Again:
    """Several requests of one group become one, from the lowest number on: whoever reads knows what it has."""

    def __init__(self, topics: Topics, asked: Callable[[], None], refuse: Callable[[str], object]) -> None:
        self._topics = topics
        self._asked = asked
        self._refuse = refuse
        self._requests: dict[str | None, _Request] = {}

    def ask(self, group: str | None, payload: bytes) -> None:
        """`{"from": 17}`, or nothing for everything. What cannot be read is refused in a line."""
        try:
            if len(payload) > MOST_REQUEST_BYTES:
                raise ValueError(f"{len(payload)} bytes are too many")
            number = msgspec.json.decode(payload, type=AgainRequest).number if payload else 1
        except ValueError as error:
            self._refuse(f'a request for events is no {{"from": NUMBER}}: {error}')
            return
        before = self._requests.get(group)
        if before is None and len(self._requests) >= MOST_REQUESTS:
            self._refuse(f"events of more than {MOST_REQUESTS} groups are asked for at once")
        elif before is None or number < before.number:
            self._requests[group] = _Request(group, number)
            self._asked()

    def clear(self) -> None:
        """Those who asked are not connected any more."""
        self._requests.clear()

    @property
    def is_wanted(self) -> bool:
        return bool(self._requests)

    async def portion(self, store: EventStore, told: int) -> list[Outgoing]:
        """The next messages of the group whose turn it is; `told` is how far the feed has come.

        Raises StoreError; then nobody asks for that group any more.
        """
        request = self._requests.pop(next(iter(self._requests)))
        records = await request.portion(store, told)
        if not request.is_over and request.group not in self._requests:
            self._requests[request.group] = request
        topic = self._topics.group(request.group, "events")
        payloads = feed_payloads(request.group, records, again=True, first=request.first)
        if not records and request.is_over:
            # So that whoever asked need not wait for what is not there.
            payloads = [
                msgspec.json.encode(FeedMessage(group=request.group, events=[], again=True, first=request.first))
            ]
        return [Outgoing(topic, payload) for payload in payloads]
