"""Requests of MQTT clients for events that were published before, because they missed them or started later."""

from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from regroup.mqtt.link import MqttMessage
from regroup.mqtt.payloads import decode_payload
from regroup.mqtt.topics import MqttTopics
from regroup.server.mqtt.messages import MAX_CONTROL_MESSAGE_BYTES, FeedMessage, ReplayRequest, feed_payloads
from regroup.storage.records import Record
from regroup.storage.store import EventStore

MAX_PENDING_REQUESTS: Final = 1_000
"""The most groups with an incomplete request."""
MAX_RECORDS_PER_TURN: Final = 1_000
"""How many records are read at once, before other groups and new events have their turn."""


class _Replay:
    """Reads the events of one group from a number (inclusive) on, in portions. Between two portions no transaction of
    the store is open."""

    def __init__(self, group: str | None, from_number: int) -> None:
        self.group = group
        self.from_number = from_number
        self.first_number = 0
        """The earliest event number of the group that is still in the store; 0 before the first portion, or if there is
        none."""
        self.is_complete = False
        self._records: AsyncIterator[Record] | None = None

    async def read(self, store: EventStore, until: int) -> list[Record]:
        """Return the next portion of the group's records, up to and including the store's position `until`, without
        those before the requested event number. Raises StoreError."""
        if self._records is None:
            self._records = store.read(group=self.group, after=store.trimmed_through, until=until)
        portion: list[Record] = []
        self.is_complete = True
        async for record in self._records:
            self.first_number = self.first_number or record.event_number
            portion.append(record)
            if len(portion) == MAX_RECORDS_PER_TURN:
                self.is_complete = False
                break
        return [record for record in portion if record.event_number >= self.from_number]


class ReplayRequests:
    """The requests for a replay that are not complete. Several requests for one group are joined into one, which begins
    at the lowest event number.

    `on_request` is called when a request is added; `log_refusal` gets the reason for which a request is dropped.
    """

    def __init__(
        self, topics: MqttTopics, on_request: Callable[[], None], log_refusal: Callable[[str], object]
    ) -> None:
        self._topics = topics
        self._on_request = on_request
        self._log_refusal = log_refusal
        self._replays: dict[str | None, _Replay] = {}

    def add(self, group: str | None, payload: bytes) -> None:
        """Add a request for the events of a group. `payload` is JSON such as `{"from": 17}`, the first event number
        that is wanted, or empty for all events."""
        try:
            if len(payload) > MAX_CONTROL_MESSAGE_BYTES:
                raise ValueError(f"{len(payload)} bytes, at most {MAX_CONTROL_MESSAGE_BYTES} are allowed")
            number = decode_payload(payload, ReplayRequest).from_event_number if payload else 1
        except ValueError as error:
            self._log_refusal(f'invalid replay request, expected {{"from": NUMBER}}: {error}')
            return
        present = self._replays.get(group)
        if present is None and len(self._replays) >= MAX_PENDING_REQUESTS:
            self._log_refusal(f"replays of more than {MAX_PENDING_REQUESTS} groups are requested at once")
        elif present is None or number < present.from_number:
            self._replays[group] = _Replay(group, number)
            self._on_request()

    def clear(self) -> None:
        """Drop all requests for replays, because the connection to the MQTT broker was lost."""
        self._replays.clear()

    @property
    def is_pending(self) -> bool:
        return bool(self._replays)

    async def next_messages(self, store: EventStore, until: int) -> list[MqttMessage]:
        """The messages of the next portion, with events up to and including the store's position `until`.

        Raises StoreError; then the request is dropped.
        """
        replay = self._replays.pop(next(iter(self._replays)))
        records = await replay.read(store, until)
        if not replay.is_complete and replay.group not in self._replays:
            self._replays[replay.group] = replay
        first = replay.first_number
        payloads = feed_payloads(replay.group, records, is_replay=True, first_event_number=first)
        if not records and replay.is_complete:
            # An empty message ends the wait of a reader that has requested events that do not exist.
            empty = FeedMessage(group=replay.group, events=[], is_replay=True, first_event_number=first)
            payloads = [msgspec.json.encode(empty)]
        topic = self._topics.group(replay.group, "events")
        return [MqttMessage(topic, payload) for payload in payloads]
