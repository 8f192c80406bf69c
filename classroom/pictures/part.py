"""The part of a timeline that a picture shows, and the refusal of a part that would be unreadable."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from regroup.classroom.incidents import Incident, incidents_between, incidents_of
from regroup.classroom.languages import Language
from regroup.classroom.phrases.phrase import in_language, phrase
from regroup.classroom.points import PositionRange
from regroup.classroom.timeline import GroupTimeline, HeldRequest, Lane, PartitionSpan, TimelineMoment
from regroup.classroom.wording import MemberNames, partitions_text
from regroup.coordinator.events import OFFSET_EVENTS, OffsetsWritten
from regroup.protocol.consumer.subscription import TopicPartition

MAX_ROWS_ALONE: Final = 24
"""Up to so many partitions have a row each; of more, those with the same owners at all times share one."""
MAX_ROWS: Final = 60
"""Rows of partitions in a picture."""


class PictureLimits(NamedTuple):
    """How many members and how many different times a picture may have so that it can be read."""

    members: int
    times: int


class Unreadable(Exception):
    """Raised if a picture would have too much in it to be readable; the message names a part that would not."""


class OwnershipRow(NamedTuple):
    """One row of the ownership picture: a partition, or several with the same owners at all times."""

    label: str
    spans: tuple[PartitionSpan, ...]


class PicturePart:
    """A part of a timeline, cut at the positions of its first and last event."""

    def __init__(
        self, timeline: GroupTimeline, within: PositionRange, incidents: Sequence[Incident] | None = None
    ) -> None:
        """Cut the part `within` out of the timeline. `incidents` are all of the history, if already computed."""
        self.timeline = timeline
        self.within = within
        self.names = MemberNames(timeline.names_of_ids)
        self.moments: Sequence[TimelineMoment] = [
            moment for moment in timeline.moments_between(*within) if not is_about_offsets(moment)
        ] or timeline.moments_between(*within)[:1]
        """The events that are not about offsets alone."""
        self.began_ms = self.moments[0].at_ms
        _, until_ms = timeline.times_of(within)
        found = incidents_of(timeline) if incidents is None else incidents
        self.incidents: Sequence[Incident] = incidents_between(found, self.began_ms, until_ms)
        """The requests that went wrong; those after the last event of the history belong to its last part."""
        last_ms = timeline.moments_between(*within)[-1].at_ms
        self.ended_ms = max([last_ms, *(each.at_ms for each in self.incidents)])
        self.lanes: Sequence[Lane] = timeline.lanes_between(*within)

    def since_began(self, at_ms: int) -> str:
        """A time as text, in seconds since the first event of the whole history, not of this part: `+103.017`."""
        return f"+{(at_ms - self.timeline.began.at_ms) / 1000:.3f}"

    @property
    def times_ms(self) -> list[int]:
        """The different times of events and incidents in this part, in order."""
        at_ms = {moment.at_ms for moment in self.moments} | {each.at_ms for each in self.incidents}
        return sorted(at_ms | {self.ended_ms})

    @cached_property
    def incidents_by_lane(self) -> Mapping[Lane, list[Incident]]:
        """The incidents of each lane. Those of clients without a lane in this part are left out; `notes` has all."""
        by_lane: dict[Lane, list[Incident]] = {}
        for incident in self.incidents:
            lanes = [each for each in self.lanes if each.member_id == incident.member_id] or [
                each for each in self.lanes if each.client_id == incident.name
            ]
            if lanes:
                by_lane.setdefault(lanes[-1], []).append(incident)
        return by_lane

    def notes(self, limit: int, language: Language = Language.ENGLISH) -> Iterator[tuple[str, str]]:
        """Yield the first `limit` incidents, each as time since the group's first event and sentence.

        If there are more, a sentence with their number follows, with an empty time.
        """
        for each in self.incidents[:limit]:
            yield self.since_began(each.at_ms), each.text_in(language)
        if (more := len(self.incidents) - limit) > 0:
            yield "", in_language(phrase("further incidents", number=more), language)

    @cached_property
    def held_requests(self) -> Sequence[HeldRequest]:
        """The requests that were held at some time of this part."""
        first, last = self.within
        return [
            each
            for each in self.timeline.held_requests
            if each.began.position <= last and (each.ended is None or each.ended.position >= first)
        ]

    def ownership_rows(self) -> list[OwnershipRow]:
        """The rows about owners: one for each partition, or if there are many, for those with the same owners.

        Raises Unreadable if there are still too many rows.
        """
        first, last = self.within
        within = {
            partition: tuple(
                span
                for span in spans
                if span.began.position <= last and (span.ended is None or span.ended.position > first)
            )
            for partition, spans in self.timeline.ownership.items()
        }
        shown = {partition: spans for partition, spans in within.items() if spans}
        rows = [OwnershipRow(f"{each.topic}-{each.partition}", spans) for each, spans in shown.items()]
        if len(rows) > MAX_ROWS_ALONE:
            rows = list(_rows_with_the_same_owners(shown))
        if len(rows) > MAX_ROWS:
            raise Unreadable(
                f"the owners of {len(shown)} partitions need {len(rows)} rows, and at most {MAX_ROWS} can be read; "
                "choose a shorter part with --from and --to"
            )
        return rows


def is_about_offsets(moment: TimelineMoment) -> bool:
    return isinstance(moment.event, (*OFFSET_EVENTS, OffsetsWritten))


def readable_part(timeline: GroupTimeline, within: PositionRange, limits: PictureLimits) -> PicturePart:
    """The part between two positions. Raises Unreadable if it has too many members or events for a picture."""
    incidents = incidents_of(timeline)
    part = PicturePart(timeline, within, incidents)
    members, times = len(part.lanes), len(part.times_ms)
    if members <= limits.members and times <= limits.times:
        return part
    found = _readable_range(timeline, within, limits, incidents)
    advice = (
        f"--from {found.first} --to {found.last} would be readable" if found else "`regroup story` has no such limit"
    )
    raise Unreadable(
        f"positions {within.first} to {within.last} have {members} members and events at {times} times, and a picture "
        f"of more than {limits.members} members or {limits.times} times cannot be read; {advice}"
    )


def _readable_range(
    timeline: GroupTimeline, within: PositionRange, limits: PictureLimits, incidents: Sequence[Incident]
) -> PositionRange | None:
    """The longest part from the begin of a range that is readable; None if two events are too much already."""
    positions = [moment.position for moment in timeline.moments_between(*within)]

    def is_unreadable(last: int) -> bool:
        part = PicturePart(timeline, PositionRange(within.first, last), incidents)
        return len(part.lanes) > limits.members or len(part.times_ms) > limits.times

    count = bisect_right(positions, False, key=is_unreadable)
    return PositionRange(within.first, positions[count - 1]) if count > 1 else None


def _rows_with_the_same_owners(shown: dict[TopicPartition, tuple[PartitionSpan, ...]]) -> Iterator[OwnershipRow]:
    alike: dict[tuple[object, ...], list[TopicPartition]] = {}
    for partition, spans in shown.items():
        key = (partition.topic, *((each.began, each.ended, each.assigned_to, each.owners) for each in spans))
        alike.setdefault(key, []).append(partition)
    for partitions in alike.values():
        yield OwnershipRow(partitions_text(partitions), shown[partitions[0]])
