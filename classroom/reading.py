"""Reading the timelines of groups from a store."""

from collections.abc import Collection, Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from regroup.classroom.fold.build import TOPIC_EVENT_TYPES, TimelineBuilder
from regroup.classroom.points import Point
from regroup.classroom.recorded.drafts import ExchangeDrafts
from regroup.classroom.recorded.exchanges import timeline_exchanges
from regroup.classroom.recorded.log_ends import LogEndsBuilder
from regroup.classroom.recorded.repeated_reads import RepeatedReadsBuilder
from regroup.classroom.recorded.views import ViewsBuilder
from regroup.classroom.recorded_values import LogEnd, Recorded
from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator.runtime.loading import load_groups
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.recording.blocks import decode_block
from regroup.server.recording.observations import (
    MessageObserved,
    Observation,
    ObservationsBegan,
    ReadAgainObserved,
    ViewObserved,
    read_observations,
)
from regroup.storage.store import EventStore, again_if_trimmed


async def read_timelines(store: EventStore, groups: Collection[str]) -> dict[str, GroupTimeline]:
    """The timelines of these groups, which must be in the store, with all that was recorded of them.

    Where events have been trimmed, a timeline begins with the group's snapshot. Raises StoreError.
    """
    timelines = await again_if_trimmed(partial(read_events, store, groups))
    recordings = RecordingsBuilder(timelines)
    async for block in store.read_exchanges():
        for row in decode_block(block):
            recordings.exchanges.on_row(row, block.number)
            recordings.log_ends.on_row(row)
    async for observation in read_observations(store):
        recordings.on_observation(observation)
    return {name: recordings.added_to(timeline) for name, timeline in timelines.items()}


async def read_events(store: EventStore, groups: Collection[str]) -> dict[str, GroupTimeline]:
    """The timelines of these groups from events alone. Raises StoreError."""
    builders = await begin_timelines(store, groups)
    async for record in store.read(after=store.trimmed_through):
        if record.group is None and record.type in TOPIC_EVENT_TYPES:
            for builder in builders.values():
                builder.on_record(record)
        elif record.group is not None and record.group in builders:
            builders[record.group].on_record(record)
    return {name: builder.timeline() for name, builder in builders.items() if builder.has_history}


async def begin_timelines(store: EventStore, groups: Collection[str]) -> dict[str, TimelineBuilder]:
    """A builder for each group, which has yet to get the records after the trimmed ones; it begins with the snapshot.

    Raises StoreError.
    """
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


class RecordingsBuilder:
    """Collects what a store holds beside the events of some groups, and adds it to the groups' timelines.

    Rows of recorded requests are passed to `exchanges` and `log_ends`, observations of a simulation to
    `on_observation`.
    """

    def __init__(self, groups: Collection[str]) -> None:
        self.exchanges = ExchangeDrafts(groups)
        self.log_ends = LogEndsBuilder()
        self._views = {group: ViewsBuilder() for group in groups}
        self._reads = {group: RepeatedReadsBuilder() for group in groups}
        self._has_network = self._has_views = self._has_reads = False

    def on_observation(self, observation: Observation) -> None:
        """Take in an observation of a simulation. All rows of recorded requests must be passed before."""
        match observation:
            case ObservationsBegan():
                self._has_network = self._has_views = True
                self._has_reads = observation.has_reads
            case ReadAgainObserved():
                if observation.group in self._reads:
                    self._reads[observation.group].on_read(observation)
            case MessageObserved():
                self._has_network = True
                self.exchanges.on_message(observation)
            case ViewObserved():
                self._has_views = True
                if observation.group in self._views:
                    self._views[observation.group].on_view(observation)

    def added_to(self, timeline: GroupTimeline) -> GroupTimeline:
        """A copy of the timeline with exchanges, views, ends of logs and repeated reads, as far as they were recorded.

        Recordings from before the begin of a trimmed history are left out.
        """
        group, from_ms = timeline.group_id, timeline.began.at_ms if timeline.is_trimmed else 0
        views = self._views[group].spans()
        return replace(
            timeline,
            exchanges=timeline_exchanges(self.exchanges, group, timeline.moments, from_ms),
            views=tuple(each for each in views if each.ended is None or each.ended.at_ms >= from_ms),
            log_ends=self._log_ends_of(timeline),
            repeated_reads=self._reads[group].of_partitions(),
            recorded=Recorded(
                exchanges=bool(self.exchanges.recorded_since_ms),
                network=self._has_network,
                views=self._has_views,
                reads=self._has_reads,
                processes=tuple(_processes(timeline, self.exchanges.recorded_since_ms)),
            ),
        )

    def _log_ends_of(self, timeline: GroupTimeline) -> dict[TopicPartition, tuple[LogEnd, ...]]:
        """The ends of those logs whose partitions the group has committed, or its members have owned."""
        ends = self.log_ends.of_topics(timeline.topic_names)
        return {each: ends[each] for each in sorted({*timeline.offsets, *timeline.ownership}) if each in ends}


def _processes(timeline: GroupTimeline, recorded_since_ms: Mapping[int, int]) -> Iterator[tuple[int, int | None]]:
    """Yield the epoch of each broker process, and since when its requests were recorded; None if they were not.

    The epoch is the last part of the name of a connection, 7 in `0-3@7`.
    """
    causes = (moment.cause for moment in timeline.moments if moment.cause is not None)
    named = {cause.connection.rpartition("@")[2] for cause in causes}
    epochs = sorted({*recorded_since_ms, *(int(epoch) for epoch in named if epoch.isdecimal())})
    yield from ((epoch, recorded_since_ms.get(epoch)) for epoch in epochs)
