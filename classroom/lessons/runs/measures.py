"""What a lesson can count or look up in a run: for the answer of a question, for conditions, and for texts.

    - {measure: rebalances, from: 20s, at most: 0}

`MEASURES` is the whole list; a lesson's file cannot contain code.
"""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Final, NamedTuple

from regroup.classroom.lessons.format.parts import Measure
from regroup.classroom.lessons.runs.answers import AnswerKind, AnswerValue, Known, UnreadableAnswer, parse_answer
from regroup.classroom.lessons.runs.moments import find_moment, matching_moments, selector_problems, selector_text
from regroup.classroom.lessons.runs.reading_times import reading_times
from regroup.classroom.lessons.runs.run import LessonRun, RunRefused
from regroup.classroom.timeline import PartitionSpan, TimelineMoment
from regroup.coordinator.events import OffsetsCommitted
from regroup.lab.plan.plan import SimulationPlan
from regroup.members.partitioners import partition_for_key
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.cluster.image import partition_of_key

OFFSETS_TOPIC_PARTITIONS: Final = "offsets.topic.num.partitions"


class CannotMeasure(ValueError):
    """A measure has no value in a run, for example because a moment that it names never came."""


class MeasureKind(NamedTuple):
    """One measure: the kind of its value, how it is computed, and which fields it needs and may have."""

    kind: AnswerKind
    compute: Callable[[LessonRun, Measure], AnswerValue]
    meaning: str
    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()


def measure_value(run: LessonRun, measure: Measure) -> AnswerValue:
    """The value of a measure in a run. Raises CannotMeasure."""
    try:
        group = run.of_group(measure.group) if measure.group else run
    except RunRefused as error:
        raise CannotMeasure(str(error)) from None
    return MEASURES[measure.measure].compute(group, measure)


def measure_kind(measure: Measure) -> AnswerKind:
    """The kind of a measure's value."""
    return MEASURES[measure.measure].kind


def known_names(plan: SimulationPlan) -> Known:
    """The names that answers about a run of this plan may use."""
    return Known(tuple(plan.members), tuple(plan.topics))


# -- times and moments


def _window(run: LessonRun, measure: Measure) -> tuple[int, int]:
    return measure.from_ or 0, run.ended_ms if measure.until is None else measure.until


def _moments_in(run: LessonRun, measure: Measure, event_type: str) -> Iterator[TimelineMoment]:
    first, last = _window(run, measure)
    for moment in run.timeline.moments:
        if moment.type == event_type and first <= run.since_start_ms(moment.at_ms) <= last:
            yield moment


def _state_at(run: LessonRun, measure: Measure) -> TimelineMoment | None:
    """The last event of the group up to the time that a measure names."""
    at_ms = run.ended_ms if measure.at is None else measure.at
    earlier = [moment for moment in run.timeline.moments if run.since_start_ms(moment.at_ms) <= at_ms]
    return earlier[-1] if earlier else None


def _number_of_rebalances(run: LessonRun, measure: Measure) -> float:
    return float(sum(1 for _ in _moments_in(run, measure, "generation-started")))


def _number_of_moments(run: LessonRun, measure: Measure) -> float:
    assert measure.of is not None
    first, last = _window(run, measure)
    return float(sum(1 for moment in matching_moments(run, measure.of) if first <= moment.at_ms <= last))


def _time_of(run: LessonRun, measure: Measure) -> float:
    assert measure.of is not None
    moment = find_moment(run, measure.of)
    if moment is None:
        raise CannotMeasure(f"the run has no moment {{{selector_text(measure.of)}}}")
    return float(moment.at_ms)


def _time_between(run: LessonRun, measure: Measure) -> float:
    assert measure.to is not None
    ended = find_moment(run, measure.to)
    if ended is None:
        raise CannotMeasure(f"the run has no moment {{{selector_text(measure.to)}}}")
    return ended.at_ms - _time_of(run, measure)


# -- the group


def _generation(run: LessonRun, measure: Measure) -> float:
    moment = _state_at(run, measure)
    return float(moment.generation_id if moment else 0)


def _state(run: LessonRun, measure: Measure) -> str:
    moment = _state_at(run, measure)
    return moment.state.value if moment else "Dead"


def _leader(run: LessonRun, measure: Measure) -> frozenset[str]:
    moment = _state_at(run, measure)
    return frozenset({run.name_of(moment.leader_id)} if moment and moment.leader_id else ())


def _members(run: LessonRun, measure: Measure) -> frozenset[str]:
    at_ms = run.epoch_ms(run.ended_ms if measure.at is None else measure.at)
    lanes = (lane for lane in run.timeline.lanes if lane.began.at_ms <= at_ms)
    return frozenset(run.name_of(each.member_id) for each in lanes if each.ended is None or each.ended.at_ms > at_ms)


def _removed(run: LessonRun, measure: Measure) -> frozenset[str]:
    removals = _moments_in(run, measure, "member-removed")
    return frozenset(run.name_of(getattr(moment.event, "member_id", None)) for moment in removals)


def _assignor(run: LessonRun, measure: Measure) -> str:
    at_ms = run.epoch_ms(run.ended_ms if measure.at is None else measure.at)
    names = [each.protocol_name for each in run.timeline.generations if each.began.at_ms <= at_ms and each.leader_id]
    return (names[-1] if names else None) or ""


# -- partitions


def _span_at(spans: tuple[PartitionSpan, ...], at_ms: int) -> PartitionSpan | None:
    earlier = [span for span in spans if span.began.at_ms <= at_ms]
    return earlier[-1] if earlier and (earlier[-1].ended is None or earlier[-1].ended.at_ms > at_ms) else None


def _owners(run: LessonRun, since_start_ms: int) -> dict[TopicPartition, frozenset[str]]:
    at_ms = run.epoch_ms(since_start_ms)
    spans = {partition: _span_at(each, at_ms) for partition, each in run.timeline.ownership.items()}
    return {
        partition: frozenset(map(run.name_of, span.owners)) for partition, span in spans.items() if span is not None
    }


def _at(run: LessonRun, measure: Measure) -> int:
    return run.ended_ms if measure.at is None else measure.at


def _partitions(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    owners = _owners(run, _at(run, measure))
    return frozenset(partition for partition, names in owners.items() if measure.member in names)


def _number_of_partitions(run: LessonRun, measure: Measure) -> float:
    return float(len(_partitions(run, measure)))


def _owner(run: LessonRun, measure: Measure) -> frozenset[str]:
    (partition,) = _partitions_named(run.plan, measure)
    return _owners(run, _at(run, measure)).get(partition, frozenset())


def _difference(run: LessonRun, measure: Measure) -> float:
    counts = dict.fromkeys(_members(run, measure), 0)
    for names in _owners(run, _at(run, measure)).values():
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    return float(max(counts.values(), default=0) - min(counts.values(), default=0))


def _moved(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    first, last = _window(run, measure)
    before, after = _owners(run, first), _owners(run, last)
    return frozenset(partition for partition, names in after.items() if names != before.get(partition, frozenset()))


def _kept(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    first, last = _window(run, measure)
    before, after = _owners(run, first), _owners(run, last)
    return frozenset(
        partition
        for partition, names in after.items()
        if names and names == before.get(partition) and measure.member in ("", *names)
    )


def _gaps_ms(run: LessonRun, measure: Measure) -> Iterator[list[int]]:
    """The lengths of the times without an owner, of each partition, within the window; since its first owner."""
    first, last = (run.epoch_ms(each) for each in _window(run, measure))
    chosen = _partitions_named(run.plan, measure)
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
    first, last = _window(run, measure)
    chosen = _partitions_named(run.plan, measure)
    lengths = [
        min(each.ended_ms, last) - max(each.began_ms, first)
        for each in reading_times(run)
        if not each.readers and (not chosen or each.partition in chosen)
    ]
    return float(max([0, *lengths]))


def _unread_time(run: LessonRun, measure: Measure) -> float:
    first, last = _window(run, measure)
    chosen = _partitions_named(run.plan, measure)
    lengths = (
        max(0, min(each.ended_ms, last) - max(each.began_ms, first))
        for each in reading_times(run)
        if not each.readers and (not chosen or each.partition in chosen)
    )
    return float(sum(lengths))


def _read_by_two(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    first, last = _window(run, measure)
    return frozenset(
        each.partition
        for each in reading_times(run)
        if len(each.readers) > 1 and each.began_ms < last and each.ended_ms > first
    )


def _partitions_named(plan: SimulationPlan, measure: Measure) -> frozenset[TopicPartition]:
    found = parse_answer(AnswerKind.PARTITIONS, measure.partition, known_names(plan))
    assert isinstance(found, frozenset)
    return frozenset(each for each in found if isinstance(each, TopicPartition))


# -- the whole run


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
    """The committed offset of each partition of the topics at a time; 0 for one without a commit."""
    found = {TopicPartition(topic, n): 0 for topic, count in run.plan.topics.items() for n in range(count)}
    for moment in run.timeline.moments:
        if isinstance(moment.event, OffsetsCommitted) and run.since_start_ms(moment.at_ms) <= at_ms:
            for topic, partitions in moment.event.offsets.items():
                for number, committed in partitions.items():
                    found[TopicPartition(topic, number)] = committed.offset
    return found


def _committed_offset(run: LessonRun, measure: Measure) -> float:
    (partition,) = _partitions_named(run.plan, measure)
    return float(_committed_offsets(run, _at(run, measure)).get(partition, 0))


def _difference_of_offsets(run: LessonRun, measure: Measure) -> float:
    offsets = _committed_offsets(run, _at(run, measure)).values()
    return float(max(offsets) - min(offsets))


def _partitions_with_records(run: LessonRun, measure: Measure) -> frozenset[TopicPartition]:
    return frozenset(each for each, offset in _committed_offsets(run, _at(run, measure)).items() if offset)


def _coordinator_partition(run: LessonRun, measure: Measure) -> float:
    partitions = int(run.plan.settings.get(OFFSETS_TOPIC_PARTITIONS, 50))
    return float(partition_of_key(run.timeline.group_id, partitions))


def _coordinator_broker(run: LessonRun, measure: Measure) -> float:
    return _coordinator_partition(run, measure) % run.plan.brokers


def _coordinator_loads(run: LessonRun, measure: Measure) -> float:
    return float(sum(1 for _ in _moments_in(run, measure, "coordinator-loaded")))


def _partition_of_key(run: LessonRun, measure: Measure) -> float:
    topic = next(iter(run.plan.topics))
    return float(partition_for_key(measure.key.encode(), measure.partitions or run.plan.topics[topic]))


_WINDOW: Final = ("from_", "until")
_NUMBER, _DURATION = AnswerKind.NUMBER, AnswerKind.DURATION
_NAMES, _PARTITIONS, _WORD = AnswerKind.NAMES, AnswerKind.PARTITIONS, AnswerKind.WORD

MEASURES: Final[dict[str, MeasureKind]] = {
    "rebalances": MeasureKind(_NUMBER, _number_of_rebalances, "generations with members that began", (), _WINDOW),
    "moments": MeasureKind(_NUMBER, _number_of_moments, "how often the moment `of` came", ("of",), _WINDOW),
    "time of": MeasureKind(_DURATION, _time_of, "when the moment `of` came, since the start", ("of",)),
    "time between": MeasureKind(_DURATION, _time_between, "from the moment `of` to the moment `to`", ("of", "to")),
    "generation": MeasureKind(_NUMBER, _generation, "the generation id", (), ("at",)),
    "state": MeasureKind(_WORD, _state, "the state of the group", (), ("at",)),
    "leader": MeasureKind(_NAMES, _leader, "the leader", (), ("at",)),
    "members": MeasureKind(_NAMES, _members, "the members of the group", (), ("at",)),
    "removed": MeasureKind(_NAMES, _removed, "members that the coordinator removed", (), _WINDOW),
    "assignor": MeasureKind(_WORD, _assignor, "the assignor of the generation", (), ("at",)),
    "partitions": MeasureKind(_PARTITIONS, _partitions, "the partitions that `member` owns", ("member",), ("at",)),
    "number of partitions": MeasureKind(
        _NUMBER, _number_of_partitions, "how many partitions `member` owns", ("member",), ("at",)
    ),
    "owner": MeasureKind(_NAMES, _owner, "the member that owns `partition`", ("partition",), ("at",)),
    "difference": MeasureKind(
        _NUMBER,
        _difference,
        "partitions of the member with the most, less those of the one with the fewest",
        (),
        ("at",),
    ),
    "moved": MeasureKind(_PARTITIONS, _moved, "partitions with another owner at `until` than at `from`", (), _WINDOW),
    "kept": MeasureKind(
        _PARTITIONS, _kept, "partitions with the same owner at `until` and at `from`", (), ("member", *_WINDOW)
    ),
    "longest gap": MeasureKind(
        _DURATION,
        _longest_gap,
        "the longest time that a partition had no owner in the coordinator's view, once it had had one",
        (),
        ("partition", *_WINDOW),
    ),
    "ownerless time": MeasureKind(
        _DURATION, _ownerless_time, "the times without an owner, summed over partitions", (), ("partition", *_WINDOW)
    ),
    "unread": MeasureKind(
        _DURATION,
        _unread,
        "the longest time that no running member had a partition, by the members' own view, once one had had it",
        (),
        ("partition", *_WINDOW),
    ),
    "unread time": MeasureKind(
        _DURATION, _unread_time, "the times of `unread`, summed over partitions", (), ("partition", *_WINDOW)
    ),
    "read by two": MeasureKind(
        _PARTITIONS,
        _read_by_two,
        "partitions that two running members believed they owned at the same time",
        (),
        _WINDOW,
    ),
    "violations": MeasureKind(_NUMBER, _violations, "invariants of the lab that were violated"),
    "failed expectations": MeasureKind(_NUMBER, _failed_expectations, "expectations of the scenario that did not hold"),
    "records processed": MeasureKind(_NUMBER, _records_processed, "records processed, each time counted"),
    "records read twice": MeasureKind(_NUMBER, _records_read_twice, "processings of a record after its first"),
    "records skipped": MeasureKind(
        _NUMBER, _records_skipped, "records below a committed offset that no member processed"
    ),
    "committed offset": MeasureKind(
        _NUMBER, _committed_offset, "the committed offset of `partition`; 0 without a commit", ("partition",), ("at",)
    ),
    "difference of offsets": MeasureKind(
        _NUMBER,
        _difference_of_offsets,
        "the largest committed offset of a partition, less the smallest: how unevenly records are spread",
        (),
        ("at",),
    ),
    "partitions with records": MeasureKind(
        _PARTITIONS, _partitions_with_records, "partitions with a committed offset above 0", (), ("at",)
    ),
    "coordinator partition": MeasureKind(
        _NUMBER, _coordinator_partition, "the partition of __consumer_offsets that the group belongs to"
    ),
    "coordinator broker": MeasureKind(
        _NUMBER, _coordinator_broker, "the broker that leads this partition while all brokers run"
    ),
    "coordinator loads": MeasureKind(
        _NUMBER, _coordinator_loads, "how often a coordinator loaded the group from its log", (), _WINDOW
    ),
    "partition of key": MeasureKind(
        _NUMBER,
        _partition_of_key,
        "the partition of the first topic for records with `key`, also if it had as many `partitions` as given",
        ("key",),
        ("partitions",),
    ),
}


def measure_problems(measure: Measure, plan: SimulationPlan) -> Iterator[str]:
    """What is wrong with a measure, whatever the run is."""
    kind = MEASURES.get(measure.measure)
    if kind is None:
        nearest = get_close_matches(measure.measure, MEASURES, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {', '.join(MEASURES)}"
        yield f"unknown measure {measure.measure!r}; {hint}"
        return
    fields = ("member", "partition", "at", "from_", "until", "of", "to", "key", "partitions")
    given = [name for name in fields if getattr(measure, name) not in (None, "")]
    for name in kind.needs:
        if name not in given:
            yield f"the measure {measure.measure!r} needs `{name}`"
    for name in given:
        if name not in (*kind.needs, *kind.may_have):
            yield f"the measure {measure.measure!r} does not take `{name.strip('_')}`"
    members = tuple(plan.members)
    if measure.member and measure.member not in members:
        yield f"unknown member {measure.member!r}; known are {', '.join(members)}"
    groups = sorted({member.group for member in plan.members.values()})
    if measure.group and measure.group not in groups:
        yield f"unknown group {measure.group!r}; known are {', '.join(groups)}"
    for selector in filter(None, (measure.of, measure.to)):
        yield from selector_problems(selector, members)
    if measure.partition:
        yield from _partition_problems(plan, measure)


def _partition_problems(plan: SimulationPlan, measure: Measure) -> Iterator[str]:
    try:
        named = _partitions_named(plan, measure)
    except UnreadableAnswer:
        yield f"not a partition: {measure.partition!r}; write for example 'orders 0'"
        return
    if len(named) != 1 and "partition" in MEASURES[measure.measure].needs:
        yield f"`partition` of the measure {measure.measure!r} is one partition, not {measure.partition!r}"
