"""The committed offsets of each partition over time, built while a group's events are folded."""

from collections.abc import Iterator

from regroup.classroom.points import Point
from regroup.classroom.timeline import CommittedStep
from regroup.coordinator import events as e
from regroup.coordinator.group import Group, OffsetsByPartition
from regroup.protocol.consumer.subscription import TopicPartition


class OffsetsBuilder:
    """Builds the committed offsets of one group's partitions over time, as one step for each change."""

    def __init__(self) -> None:
        self._steps: dict[TopicPartition, list[CommittedStep]] = {}

    def begin_with(self, group: Group, point: Point) -> None:
        """Start from a group whose earlier events have been trimmed, with its committed offsets at `point`."""
        self._take(_changed({}, group.committed_offsets), point)

    def on_event(self, event: e.Event, before: Group, after: Group, point: Point) -> None:
        """Take in an event; add a step for each partition whose committed offset differs before and after it."""
        if before.committed_offsets is after.committed_offsets:
            return
        if isinstance(event, e.OffsetsCommitted):
            committed = event.offsets
            self._take(
                (
                    (TopicPartition(topic, index), value.offset)
                    for topic in committed
                    for index, value in committed[topic].items()
                ),
                point,
            )
        else:
            self._take(_changed(before.committed_offsets, after.committed_offsets), point)

    def steps(self) -> dict[TopicPartition, tuple[CommittedStep, ...]]:
        """The steps of each partition, in the order of topics and indexes."""
        partitions = sorted(self._steps, key=lambda each: (each.topic, each.partition))
        return {each: tuple(self._steps[each]) for each in partitions}

    def _take(self, offsets: "Iterator[tuple[TopicPartition, int | None]]", point: Point) -> None:
        for partition, offset in offsets:
            self._steps.setdefault(partition, []).append(CommittedStep(point, offset))


def _changed(before: OffsetsByPartition, after: OffsetsByPartition) -> Iterator[tuple[TopicPartition, int | None]]:
    """Yield the partitions whose committed offset differs, each with the new offset; None if it was deleted."""
    for topic in before.keys() | after.keys():
        former, present = before.get(topic, {}), after.get(topic, {})
        for index in former.keys() | present.keys():
            if former.get(index) != present.get(index):
                committed = present.get(index)
                yield TopicPartition(topic, index), None if committed is None else committed.offset
