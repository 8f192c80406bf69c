"""Measures of partitions: who owned them, which moved, and how long they were without an owner or a reader."""

from collections.abc import Iterator
from typing import Final

from regroup.classroom.lessons.format.parts import Measure
from regroup.classroom.lessons.runs.answers import AnswerKind
from regroup.classroom.lessons.runs.group_measures import members_at
from regroup.classroom.lessons.runs.measuring import (
    WINDOW,
    MeasureKind,
    partitions_named,
    time_named,
    window,
)
from regroup.classroom.lessons.runs.reading_times import reading_times
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.classroom.timeline import PartitionSpan
from regroup.protocol.consumer.subscription import TopicPartition


def _span_at(spans: tuple[PartitionSpan, ...], at_ms: int) -> PartitionSpan | None:
    earlier = [span for span in spans if span.began.at_ms <= at_ms]
    return earlier[-1] if earlier and (earlier[-1].ended is None or earlier[-1].ended.at_ms > at_ms) else None


def _owners(run: LessonRun, since_start_ms: int) -> dict[TopicPartition, frozenset[str]]:
    at_ms = run.epoch_ms(since_start_ms)
    spans = {partition: _span_at(each, at_ms) for partition, each in run.timeline.ownership.items()}
    return {
        partition: frozenset(map(run.name_of, span.owners)) for partition, span in spans.items() if span is not None
    }


def _partitions(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    owners = _owners(run, time_named(run, measure))
    return frozenset(partition for partition, names in owners.items() if measure.member in names)


def _number_of_partitions(run: LessonRun, measure: Measure) -> float:
    return float(len(_partitions(run, measure)))


def _owner(run: LessonRun, measure: Measure) -> frozenset[str]:
    (partition,) = partitions_named(run.plan, measure)
    return _owners(run, time_named(run, measure)).get(partition, frozenset())


def _difference(run: LessonRun, measure: Measure) -> float:
    counts = dict.fromkeys(members_at(run, measure), 0)
    for names in _owners(run, time_named(run, measure)).values():
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    return float(max(counts.values(), default=0) - min(counts.values(), default=0))


def _moved(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    first, last = window(run, measure)
    before, after = _owners(run, first), _owners(run, last)
    return frozenset(partition for partition, names in after.items() if names != before.get(partition, frozenset()))


def _kept(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    first, last = window(run, measure)
    before, after = _owners(run, first), _owners(run, last)
    return frozenset(
        partition
        for partition, names in after.items()
        if names and names == before.get(partition) and measure.member in ("", *names)
    )


def _gaps_ms(run: LessonRun, measure: Measure) -> Iterator[list[int]]:
    """Yield, for each partition of the measure, the lengths of its times without an owner, in milliseconds.

    They are cut to the time that the measure covers, and count from the partition's first owner on.
    """
    first, last = (run.epoch_ms(each) for each in window(run, measure))
    chosen = partitions_named(run.plan, measure)
    for partition, spans in run.timeline.ownership.items():
        if chosen and partition not in chosen:
            continue
        lengths, gap_ms, had_owner = [], 0, False
        for span in spans:
            had_owner = had_owner or bool(span.owners)
            if span.owners:
                lengths.append(gap_ms)
                gap_ms = 0
            elif had_owner:
                ended_ms = span.ended.at_ms if span.ended else last
                gap_ms += max(0, min(ended_ms, last) - max(span.began.at_ms, first))
        yield [*lengths, gap_ms]


def _longest_gap(run: LessonRun, measure: Measure) -> float:
    return float(max((max(lengths) for lengths in _gaps_ms(run, measure)), default=0))


def _ownerless_time(run: LessonRun, measure: Measure) -> float:
    return float(sum(sum(lengths) for lengths in _gaps_ms(run, measure)))


def _unread(run: LessonRun, measure: Measure) -> float:
    first, last = window(run, measure)
    chosen = partitions_named(run.plan, measure)
    lengths = [
        min(each.ended_ms, last) - max(each.began_ms, first)
        for each in reading_times(run)
        if not each.readers and (not chosen or each.partition in chosen)
    ]
    return float(max([0, *lengths]))


def _unread_time(run: LessonRun, measure: Measure) -> float:
    first, last = window(run, measure)
    chosen = partitions_named(run.plan, measure)
    lengths = (
        max(0, min(each.ended_ms, last) - max(each.began_ms, first))
        for each in reading_times(run)
        if not each.readers and (not chosen or each.partition in chosen)
    )
    return float(sum(lengths))


def _read_by_two(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    first, last = window(run, measure)
    return frozenset(
        each.partition
        for each in reading_times(run)
        if len(each.readers) > 1 and each.began_ms < last and each.ended_ms > first
    )


PARTITION_MEASURES: Final[dict[str, MeasureKind]] = {
    "partitions": MeasureKind(
        AnswerKind.PARTITIONS, _partitions, "the partitions that `member` owns", ("member",), ("at",)
    ),
    "number of partitions": MeasureKind(
        AnswerKind.NUMBER, _number_of_partitions, "how many partitions `member` owns", ("member",), ("at",)
    ),
    "owner": MeasureKind(AnswerKind.NAMES, _owner, "the member that owns `partition`", ("partition",), ("at",)),
    "difference": MeasureKind(
        AnswerKind.NUMBER,
        _difference,
        "partitions of the member with the most, less those of the one with the fewest",
        (),
        ("at",),
    ),
    "moved": MeasureKind(
        AnswerKind.PARTITIONS, _moved, "partitions with another owner at `until` than at `from`", (), WINDOW
    ),
    "kept": MeasureKind(
        AnswerKind.PARTITIONS, _kept, "partitions with the same owner at `until` and at `from`", (), ("member", *WINDOW)
    ),
    "longest gap": MeasureKind(
        AnswerKind.DURATION,
        _longest_gap,
        "the longest time that a partition had no owner in the coordinator's view, once it had had one",
        (),
        ("partition", *WINDOW),
    ),
    "ownerless time": MeasureKind(
        AnswerKind.DURATION,
        _ownerless_time,
        "the times without an owner, summed over partitions",
        (),
        ("partition", *WINDOW),
    ),
    "unread": MeasureKind(
        AnswerKind.DURATION,
        _unread,
        "the longest time that no running member had a partition, by the members' own view, once one had had it",
        (),
        ("partition", *WINDOW),
    ),
    "unread time": MeasureKind(
        AnswerKind.DURATION, _unread_time, "the times of `unread`, summed over partitions", (), ("partition", *WINDOW)
    ),
    "read by two": MeasureKind(
        AnswerKind.PARTITIONS,
        _read_by_two,
        "partitions that two running members believed they owned at the same time",
        (),
        WINDOW,
    ),
}
