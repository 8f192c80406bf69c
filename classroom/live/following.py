"""The timelines of groups whose events are still being written: read once, and then followed.

timelines = FollowedTimelines(lambda: store)
followed = await timelines.read("billing")     # what is new in the store is taken in
followed.position, followed.timeline()
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from regroup.classroom.fold.build import TOPIC_EVENT_TYPES, TimelineBuilder
from regroup.classroom.points import Point
from regroup.classroom.reading import begin_timelines
from regroup.classroom.timeline import GroupTimeline
from regroup.storage.errors import PositionTrimmed
from regroup.storage.records import Record
from regroup.storage.store import EventStore

MAX_FOLLOWED: Final = 50
MAX_KEPT_EVENTS: Final = 100_000
"""Timelines that are kept, and their events together. Of more the timeline that was read longest ago is dropped, and
built again from the store when it is needed. An event takes about 1.4 kB."""
MAX_EVENTS: Final = 50_000
"""Events of one timeline. With the next one it starts again, with the group as it is then."""
RECORDS_BETWEEN_TURNS: Final = 200
"""Records that are folded before other tasks of the loop get their turn."""


class FollowedTimeline:
    """The timeline of one group up to a position in the store, which `catch_up` extends by new events."""

    def __init__(self, group_id: str, builder: TimelineBuilder, position: int) -> None:
        self.group_id = group_id
        self._builder = builder
        self._read_through = position
        self.position = position if builder.has_history else 0
        """The last record that was taken in, of the group or of a topic; 0 before the group's first."""
        self._built: tuple[int, GroupTimeline] | None = None

    @property
    def event_count(self) -> int:
        """How many events of the group the timeline holds."""
        return self._builder.event_count

    @property
    def exists(self) -> bool:
        """Whether the group has any history."""
        return self._builder.has_history

    def timeline(self) -> GroupTimeline:
        """The timeline up to `position`. Raises ValueError if the group has no history."""
        if self._built is None or self._built[0] != self.position:
            self._built = self.position, self._builder.timeline()
        return self._built[1]

    async def catch_up(self, store: EventStore) -> None:
        """Take in the records that were added to the store since the last call.

        Raises StoreError; PositionTrimmed, a kind of it, if some of these records have been trimmed.
        """
        last = store.last_position
        if last == self._read_through:
            return
        after, count = self._read_through, 0
        async for record in _records(store, self.group_id, after, last):
            if self._builder.event_count >= MAX_EVENTS and record.group is not None:
                await self._begin_anew(store)
            self._builder.on_record(record)
            self._read_through = record.position
            if self.exists:
                self.position = record.position
            count += 1
            if count % RECORDS_BETWEEN_TURNS == 0:
                await asyncio.sleep(0)
        self._read_through = last

    async def _begin_anew(self, store: EventStore) -> None:
        """Drop the events taken in so far, and restart the timeline with the group and the topics as they are now."""
        former, timeline = self._builder, self._builder.timeline()
        began = Point(self._read_through, timeline.last.at_ms)
        self._builder = TimelineBuilder(self.group_id, trimmed_through=began, group=former.group)
        async for record in store.read(group=None, after=store.trimmed_through, until=began.position):
            if record.type in TOPIC_EVENT_TYPES:
                self._builder.on_record(replace(record, position=began.position, at_ms=began.at_ms))


class FollowedPosition:
    """The position of a group's last event, looked up without folding the events."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._read_through = -1
        self.position = 0
        """Of the last event of the group or of a topic, as far as it was looked at; 0 before the group's first."""

    async def advance(self, store: EventStore) -> int:
        """Look at the records added to the store since the last call, and return the position. Raises StoreError."""
        last, after = store.last_position, max(self._read_through, store.trimmed_through)
        if self._read_through < 0:
            # The last event of the cluster may be one that is not of a topic: then it is news without a change.
            heads = await store.heads()
            if self._group_id in heads:
                self.position = max(heads[each].position for each in (self._group_id, None) if each in heads)
        elif last > after:
            async for record in store.read(group=self._group_id, after=after, until=last):
                self.position = record.position
            if self.position:
                async for record in store.read(group=None, after=after, until=last):
                    if record.type in TOPIC_EVENT_TYPES:
                        self.position = max(self.position, record.position)
        self._read_through = last
        return self.position


class FollowedTimelines:
    """Keeps the timelines that were read last. `store` is a function that returns the store that is open now."""

    def __init__(self, store: Callable[[], EventStore]) -> None:
        self._store = store
        self._followed: dict[str, FollowedTimeline] = {}
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def read(self, group_id: str) -> FollowedTimeline:
        """The timeline of a group with all events that are durable by now; an empty one for a group without history.

        Raises StoreError.
        """
        lock = self._reading.setdefault(group_id, asyncio.Lock())
        async with lock:
            return await self._read(group_id)

    async def _read(self, group_id: str) -> FollowedTimeline:
        store = self._store()
        followed = self._followed.pop(group_id, None) or await _begin(store, group_id)
        try:
            await followed.catch_up(store)
        except PositionTrimmed:
            followed = await _begin(store, group_id)
            await followed.catch_up(store)
        self._followed[group_id] = followed
        self._drop_oldest()
        return followed

    def _drop_oldest(self) -> None:
        events = sum(each.event_count for each in self._followed.values())
        while len(self._followed) > MAX_FOLLOWED or (events > MAX_KEPT_EVENTS and len(self._followed) > 1):
            oldest = next(iter(self._followed))
            events -= self._followed.pop(oldest).event_count


async def _begin(store: EventStore, group_id: str) -> FollowedTimeline:
    builders = await begin_timelines(store, [group_id])
    return FollowedTimeline(group_id, builders[group_id], store.trimmed_through)


async def _records(store: EventStore, group_id: str, after: int, until: int) -> AsyncIterator[Record]:
    """Yield the records of a group and those about topics with after < position <= until, in order of position."""
    topics = [
        record async for record in store.read(group=None, after=after, until=until) if record.type in TOPIC_EVENT_TYPES
    ]
    topics.reverse()
    async for record in store.read(group=group_id, after=after, until=until):
        while topics and topics[-1].position < record.position:
            yield topics.pop()
        yield record
    while topics:
        yield topics.pop()
