"""The events of a store, by the request that led to them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.event_links import EventLinks
from regroup.server.recording.exchange import RecordedExchange
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord, Record
from tests.server.recording.frames import HOST, heartbeat

CONNECTION = "0-1@1"


class YieldingStore(MemoryStore):
    """A store that suspends its reader before each record, as one in a file does between two chunks."""

    async def read(self, **options: Any) -> AsyncIterator[Record]:
        async for record in super().read(**options):
            await asyncio.sleep(0)
            yield record


def caused_event(number: int, at_ms: int) -> NewRecord:
    """Event `number` of a group, which the request with the same number as its correlation id has led to."""
    cause = f'{{"api":"Heartbeat","connection":"{CONNECTION}","correlation_id":{number},"client_id":"anna"}}'
    return NewRecord(
        group="g",
        event_number=number,
        coordinator_epoch=1,
        at_ms=at_ms,
        type="member-joined",
        version=1,
        payload=b"{}",
        cause=cause.encode(),
    )


def exchange(number: int, at_ms: int) -> RecordedExchange:
    frame = heartbeat(number)
    return RecordedExchange(ExchangeRow(number, CONNECTION, HOST, at_ms, at_ms, frame, len(frame)))


def positions(links: EventLinks, *exchanges: RecordedExchange) -> list[list[int]]:
    return [[event.position for event in each.events] for each in links.link(exchanges)]


async def test_two_reads_at_the_same_time_find_each_event_once() -> None:
    store, links = YieldingStore(), EventLinks()
    await store.append([caused_event(number, at_ms=1_000 + number) for number in (1, 2, 3)])
    await asyncio.gather(links.read(store), links.read(store))
    await links.read(store)
    assert positions(links, *(exchange(number, 1_000) for number in (1, 2, 3))) == [[1], [2], [3]]


async def test_events_from_before_the_oldest_exchange_are_not_kept() -> None:
    store, links = MemoryStore(), EventLinks()
    await store.append([caused_event(number, at_ms=1_000 + number) for number in (1, 2, 3)])
    await links.read(store, from_ms=1_002)
    assert positions(links, *(exchange(number, 1_000) for number in (1, 2, 3))) == [[], [2], [3]]
    await store.append([caused_event(4, at_ms=1_004)])
    await links.read(store, from_ms=1_003)
    assert positions(links, *(exchange(number, 1_000) for number in (1, 2, 3, 4))) == [[], [], [3], [4]]
    assert len(links._events) == 2
