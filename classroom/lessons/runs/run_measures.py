"""Measures of a whole run: violations, records, committed offsets, and where the group and a key belong."""

from typing import Final

from regroup.classroom.lessons.format.parts import Measure
from regroup.classroom.lessons.runs.answers import AnswerKind
from regroup.classroom.lessons.runs.measuring import WINDOW, MeasureKind, moments_in, partitions_named, time_named
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.coordinator.events import OffsetsCommitted
from regroup.members.partitioners import partition_for_key
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.cluster.image import partition_of_key

OFFSETS_TOPIC_PARTITIONS: Final = "offsets.topic.num.partitions"


def _violations(run: LessonRun, measure: Measure) -> float:
    expected = {f"{each.planned.step}." for each in run.outcome.expectations}
    return float(sum(1 for each in run.outcome.verdict.violations if each.sentence not in expected))


def _failed_expectations(run: LessonRun, measure: Measure) -> float:
    return float(sum(1 for each in run.outcome.expectations if each.found is not None))


def _records_processed(run: LessonRun, measure: Measure) -> float:
    return float(run.outcome.verdict.counts.processed)


def _records_read_twice(run: LessonRun, measure: Measure) -> float:
    return float(run.outcome.verdict.counts.processed_twice)


def _records_skipped(run: LessonRun, measure: Measure) -> float:
    return float(run.outcome.verdict.records_skipped)


def _committed_offsets(run: LessonRun, at_ms: int) -> dict[TopicPartition, int]:
    """The offset that each partition of the run's topics has committed by a time; 0 if it has none.

    `at_ms` is milliseconds since the start of the run.
    """
    found = {TopicPartition(topic, n): 0 for topic, count in run.plan.topics.items() for n in range(count)}
    for moment in run.timeline.moments:
        if isinstance(moment.event, OffsetsCommitted) and run.since_start_ms(moment.at_ms) <= at_ms:
            for topic, partitions in moment.event.offsets.items():
                for number, committed in partitions.items():
                    found[TopicPartition(topic, number)] = committed.offset
    return found


def _committed_offset(run: LessonRun, measure: Measure) -> float:
    (partition,) = partitions_named(run.plan, measure)
    return float(_committed_offsets(run, time_named(run, measure)).get(partition, 0))


def _difference_of_offsets(run: LessonRun, measure: Measure) -> float:
    offsets = _committed_offsets(run, time_named(run, measure)).values()
    return float(max(offsets) - min(offsets))


def _partitions_with_records(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    return frozenset(each for each, offset in _committed_offsets(run, time_named(run, measure)).items() if offset)


def _coordinator_partition(run: LessonRun, measure: Measure) -> float:
    partitions = int(run.plan.settings.get(OFFSETS_TOPIC_PARTITIONS, 50))
    return float(partition_of_key(run.timeline.group_id, partitions))


def _coordinator_broker(run: LessonRun, measure: Measure) -> float:
    return _coordinator_partition(run, measure) % run.plan.brokers


def _coordinator_loads(run: LessonRun, measure: Measure) -> float:
    return float(sum(1 for _ in moments_in(run, measure, "coordinator-loaded")))


def _partition_of_key(run: LessonRun, measure: Measure) -> float:
    topic = next(iter(run.plan.topics))
    return float(partition_for_key(measure.key.encode(), measure.partitions or run.plan.topics[topic]))


RUN_MEASURES: Final[dict[str, MeasureKind]] = {
    "violations": MeasureKind(AnswerKind.NUMBER, _violations, "invariants of the lab that were violated"),
    "failed expectations": MeasureKind(
        AnswerKind.NUMBER, _failed_expectations, "expectations of the scenario that did not hold"
    ),
    "records processed": MeasureKind(AnswerKind.NUMBER, _records_processed, "records processed, each time counted"),
    "records read twice": MeasureKind(
        AnswerKind.NUMBER, _records_read_twice, "processings of a record after its first"
    ),
    "records skipped": MeasureKind(
        AnswerKind.NUMBER, _records_skipped, "records below a committed offset that no member processed"
    ),
    "committed offset": MeasureKind(
        AnswerKind.NUMBER,
        _committed_offset,
        "the committed offset of `partition`; 0 without a commit",
        ("partition",),
        ("at",),
    ),
    "difference of offsets": MeasureKind(
        AnswerKind.NUMBER,
        _difference_of_offsets,
        "the largest committed offset of a partition, less the smallest: how unevenly records are spread",
        (),
        ("at",),
    ),
    "partitions with records": MeasureKind(
        AnswerKind.PARTITIONS, _partitions_with_records, "partitions with a committed offset above 0", (), ("at",)
    ),
    "coordinator partition": MeasureKind(
        AnswerKind.NUMBER, _coordinator_partition, "the partition of __consumer_offsets that the group belongs to"
    ),
    "coordinator broker": MeasureKind(
        AnswerKind.NUMBER, _coordinator_broker, "the broker that leads this partition while all brokers run"
    ),
    "coordinator loads": MeasureKind(
        AnswerKind.NUMBER, _coordinator_loads, "how often a coordinator loaded the group from its log", (), WINDOW
    ),
    "partition of key": MeasureKind(
        AnswerKind.NUMBER,
        _partition_of_key,
        "the partition of the first topic for records with `key`, also if it had as many `partitions` as given",
        ("key",),
        ("partitions",),
    ),
}
