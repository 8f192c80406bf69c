"""Finds the events to which an exchange has led: the cause of an event names the connection and the correlation id."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from regroup.coordinator.serialization import decode_cause
from regroup.server.recording.exchange import LinkedEvent, RecordedExchange
from regroup.storage.records import Record
from regroup.storage.store import EventStore, again_if_trimmed


class EventLinks:
    """The events of a store by the request that led to them. `read` may be called again to add events that were stored
    since."""

    def __init__(self) -> None:
        self._position = 0
        self._events: dict[tuple[str, int], list[tuple[int, LinkedEvent]]] = defaultdict(list)
        # Two calls that read at the same time would add the same events twice.
        self._reading = asyncio.Lock()

    async def read(self, store: EventStore, from_ms: int = 0) -> None:
        """Add the events of the store that were stored since the last call; trimmed ones are missing. Events from
        before `from_ms`, in epoch milliseconds, are left out, also those of earlier calls."""
        async with self._reading:
            self._forget_before(from_ms)
            await again_if_trimmed(partial(self._read, store, from_ms))

    async def _read(self, store: EventStore, from_ms: int) -> None:
        async for record in store.read(after=max(self._position, store.trimmed_through)):
            self._position = record.position
            if record.at_ms >= from_ms:
                self._add(record)

    def _forget_before(self, from_ms: int) -> None:
        for request, events in list(self._events.items()):
            if events[-1][0] < from_ms:
                del self._events[request]

    def _add(self, record: Record) -> None:
        cause = decode_cause(record)
        if cause is not None and cause.correlation_id is not None:
            event = LinkedEvent(record.group, record.event_number, record.position)
            self._events[cause.connection, cause.correlation_id].append((record.at_ms, event))

    def link(self, exchanges: Iterable[RecordedExchange]) -> list[RecordedExchange]:
        """Return these exchanges with the events that each of them led to. A client may use a correlation id again on
        the same connection, so an event belongs to the exchange during which it happened."""
        return [self._linked(exchange) for exchange in exchanges]

    def _linked(self, exchange: RecordedExchange) -> RecordedExchange:
        row = exchange.row
        for at_ms, event in self._events.get((exchange.connection, exchange.correlation_id), ()):
            if row.at_ms <= at_ms and (row.ended_at_ms is None or at_ms <= row.ended_at_ms):
                exchange.events += (event,)
        return exchange
