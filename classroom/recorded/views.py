"""What the members of a simulation believed they owned, as spans, and the times at which several believed so of one
partition."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from regroup.classroom.points import Point
from regroup.classroom.recorded_values import ViewSpan
from regroup.coordinator.group import MemberId
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.recording.observations import ViewObserved


class ViewsBuilder:
    """Builds, for the members of one group, the spans during which each believed that it owned the same partitions."""

    def __init__(self) -> None:
        self._spans: list[ViewSpan] = []
        self._open: dict[str, int] = {}

    def on_view(self, view: ViewObserved) -> None:
        """Take in an observation: from this time on a member believes that it owns these partitions."""
        point = Point(view.position, view.at_ms)
        partitions = tuple(TopicPartition(topic, index) for topic, index in view.partitions)
        index = self._open.get(view.client)
        if index is not None:
            span = self._spans[index]
            if (span.member_id, span.partitions) == (view.member_id, partitions):
                return
            self._spans[index] = replace(span, ended=point)
            del self._open[view.client]
        if partitions:
            self._open[view.client] = len(self._spans)
            self._spans.append(
                ViewSpan(member_id=view.member_id, client_id=view.client, partitions=partitions, began=point)
            )

    def spans(self) -> tuple[ViewSpan, ...]:
        """The spans in the order of their begin. One that began and ended in the same millisecond is left out."""
        return tuple(each for each in self._spans if each.ended is None or each.ended.at_ms > each.began.at_ms)


class Dispute(NamedTuple):
    """A time during which several members believed that they owned a partition."""

    partition: TopicPartition
    members: tuple[MemberId, ...]
    clients: tuple[str, ...]
    began: Point
    ended: Point | None


def disputes(views: Iterable[ViewSpan]) -> tuple[Dispute, ...]:
    """The times at which several members believed that they owned one partition, in order of begin.

    If other members come to believe so, or one no longer does, the next dispute begins.
    """
    by_partition: dict[TopicPartition, list[ViewSpan]] = defaultdict(list)
    for view in views:
        for partition in view.partitions:
            by_partition[partition].append(view)
    found = [each for partition, spans in by_partition.items() for each in _disputes_of(partition, spans)]
    return tuple(sorted(found, key=lambda each: (each.began.at_ms, each.partition)))


def _disputes_of(partition: TopicPartition, spans: list[ViewSpan]) -> Iterator[Dispute]:
    """Yield the disputes about one partition, whose spans of all members are given."""
    changes: dict[int, Point] = {}
    for span in spans:
        for point in (span.began, span.ended):
            if point is not None:
                changes.setdefault(point.at_ms, point)
    present: Dispute | None = None
    for point in (changes[each] for each in sorted(changes)):
        owners = [each for each in spans if each.began.at_ms <= point.at_ms < _end_ms(each)]
        members = tuple(dict.fromkeys(each.member_id for each in owners))
        if present is not None and members != present.members:
            yield present._replace(ended=point)
            present = None
        if present is None and len(owners) > 1:
            clients = tuple(dict.fromkeys(each.client_id for each in owners))
            present = Dispute(partition, members, clients, point, None)
    if present is not None:
        yield present


def _end_ms(span: ViewSpan) -> float:
    return float("inf") if span.ended is None else span.ended.at_ms
