"""Reading the timelines of groups from a store."""

from collections.abc import Collection

from regroup.classroom.build import TOPIC_EVENT_TYPES, TimelineBuilder
from regroup.classroom.timeline import GroupTimeline, Point
from regroup.coordinator.runtime.loading import load_groups
from regroup.storage.store import EventStore


async def read_timelines(store: EventStore, groups: Collection[str]) -> dict[str, GroupTimeline]:
    """The timelines of these groups, which must be in the store. The store is read once.

    Where events have been trimmed, a timeline begins with the group's snapshot. Raises StoreError.
    """
    builders = await begin_timelines(store, groups)
    async for record in store.read(after=store.trimmed_through):
        if record.group is None and record.type in TOPIC_EVENT_TYPES:
            for builder in builders.values():
                builder.on_record(record)
        elif record.group is not None and record.group in builders:
            builders[record.group].on_record(record)
    return {name: builder.timeline() for name, builder in builders.items() if builder.has_history}


async def begin_timelines(store: EventStore, groups: Collection[str]) -> dict[str, TimelineBuilder]:
    """Builders for these groups, which need the records after the trimmed ones. Raises StoreError."""
    trimmed = store.trimmed_through
    snapshots = await load_groups(store, until=trimmed) if trimmed else {}
    # The time of the first event that is left stands for the time of the snapshot, which is not stored.
    times = [record.at_ms async for record in store.read(after=trimmed, until=trimmed + 1)]
    began = Point(trimmed, times[0] if times else 0)
    return {
        name: TimelineBuilder(name, trimmed_through=began, group=snapshots[name])
        if name in snapshots
        else TimelineBuilder(name)
        for name in groups
    }
