"""The life of a group in sentences, for `regroup story`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import pairwise
from typing import Final, NamedTuple

from regroup.classroom.incidents import incidents_between, incidents_of
from regroup.classroom.languages import Language
from regroup.classroom.phrases.phrase import PhraseValue, in_language, phrase, series
from regroup.classroom.points import Point, PositionRange
from regroup.classroom.recorded.views import Dispute, disputes
from regroup.classroom.sentences import said_by
from regroup.classroom.timeline import GroupTimeline, HeldRequest, PartitionSpan, Rebalance, TimelineMoment
from regroup.classroom.wording import MemberNames, length, partitions_value, times
from regroup.coordinator import events as e
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.group import AwaitedResponse, GroupKind, GroupState, MemberId, OffsetsByPartition
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.explanation.sentences import time_text

LEAST_WAIT_MS: Final = 1_000
"""A shorter wait for a member is not worth a sentence."""
MAX_LENGTHS: Final = 4
"""Of gaps in one sentence; more are summed up."""
LEFT_OUT: Final = (e.MemberSynced, e.MemberRejoined)
"""Events that have a sentence, and repeat what a rebalance implies."""
ENDS: Final = (e.AssignmentCommitted, e.CoordinatorLoaded)
"""Events behind which something new begins, even if the same request led to it."""
REACHED: Final = (e.AssignmentCommitted, ce.MemberReconciled)
"""Events that may end a rebalance with an assignment for every member."""
TOOK: Final = {GroupKind.CLASSIC: "rebalance took", GroupKind.CONSUMER: "reconciliation took"}
STATES: Final = {GroupKind.CLASSIC: "present state", GroupKind.CONSUMER: "consumer state"}
PARTS: Final = (e.RebalanceStarted, e.CoordinatorLoaded, ce.GroupEpochBumped)
"""Events with which a part of the story begins. The commits before them are summed up."""
GENERATIONS: Final = (e.GenerationStarted, e.GenerationRaised, e.GroupEmptied)
"""Events with which a generation ends. The commits before them are summed up as well: they belong to this one."""


class StoryLine(NamedTuple):
    """A sentence of the story, with the position and time of its event. `at_ms` is epoch milliseconds."""

    position: int
    at_ms: int
    text: str
    begins_part: bool = False
    """The story has a part for each rebalance and each coordinator."""
    until_ms: int = 0
    """The latest time that the sentence names, in epoch milliseconds; 0 if it names none."""


class SaidLine(NamedTuple):
    """A line of the story as a phrase, before it is written in a language."""

    position: int
    at_ms: int
    said: PhraseValue
    begins_part: bool = False
    until_ms: int = 0

    def written(self, language: Language) -> StoryLine:
        return StoryLine(self.position, self.at_ms, in_language(self.said, language), self.begins_part, self.until_ms)


def story_lines(
    timeline: GroupTimeline, within: PositionRange | None = None, language: Language = Language.ENGLISH
) -> Iterator[StoryLine]:
    """Yield the sentences about a group's history, or a part of it, in order of time; the last describes the end."""
    within = within or timeline.positions
    moments = timeline.moments_between(*within)
    if not moments:
        return
    recorded = recorded_lines(timeline, within, language)
    # Commits are summed up when a part ends; the sentence about those of a member stands at the last of them.
    of_events = sorted(_event_lines(timeline, moments), key=lambda line: line.position)
    yield from merge((line.written(language) for line in of_events), recorded, key=lambda line: line.at_ms)
    _, to_ms = timeline.times_of(within)
    latest_ms = max((max(line.at_ms, line.until_ms) for line in recorded), default=0)
    end_ms = max(moments[-1].at_ms, round(min(latest_ms, to_ms)))
    names = MemberNames(timeline.names_of_ids)
    yield SaidLine(moments[-1].position, end_ms, _end_state(timeline, moments[-1], names)).written(language)


def recorded_lines(timeline: GroupTimeline, within: PositionRange, language: Language) -> list[StoryLine]:
    """The sentences about incidents, and about times at which several members believed they owned a partition."""
    from_ms, to_ms = timeline.times_of(within)
    lines = [
        StoryLine(timeline.position_at(each.at_ms), each.at_ms, each.text_in(language), until_ms=each.last_ms)
        for each in incidents_between(incidents_of(timeline), from_ms, to_ms)
    ]
    alike: dict[tuple[object, ...], list[Dispute]] = defaultdict(list)
    for each in disputes(timeline.views):
        if from_ms <= each.began.at_ms <= to_ms:
            alike[each.members, each.began, each.ended].append(each)
    names = MemberNames(timeline.names_of_ids)
    lines += [_dispute_line(several, names).written(language) for several in alike.values()]
    return sorted(lines, key=lambda line: line.at_ms)


def _dispute_line(disputes: Sequence[Dispute], names: MemberNames) -> SaidLine:
    """A line about partitions that the same members believed they owned at the same time."""
    first = disputes[0]
    said = phrase(
        "two believed" if len(first.members) == 2 else "several believed",
        members=names.series(first.members),
        partitions=partitions_value(each.partition for each in disputes),
        until=phrase("until the end") if first.ended is None else phrase("until", time=time_text(first.ended.at_ms)),
    )
    return SaidLine(*first.began, said, until_ms=first.ended.at_ms if first.ended is not None else 0)


def _event_lines(timeline: GroupTimeline, moments: Sequence[TimelineMoment]) -> Iterator[SaidLine]:
    names, commits = MemberNames(timeline.names_of_ids), CommitCounter()
    part_begins, begins_part = set(_part_begins(moments)), False
    lost, joins = _ends_of_ownership(timeline), _ends_of_joins(timeline)
    ends = {each.ended.position: each for each in timeline.rebalances if each.ended}
    for moment in moments:
        if moment.position in part_begins:
            yield from commits.lines(names)
            begins_part = True
        elif isinstance(moment.event, GENERATIONS):
            yield from commits.lines(names)
        commits.on_moment(moment)
        if not isinstance(moment.event, LEFT_OUT) and (said := said_by(moment, names)):
            further: PhraseValue = ""
            if isinstance(moment.event, e.MemberLeft | e.MemberRemoved):
                further = _what_it_owned(lost[moment.position], moment.event.member_id)
            elif isinstance(moment.event, e.GenerationStarted):
                further = _who_was_last(moment, joins[moment.position], names)
            yield SaidLine(moment.position, moment.at_ms, _sentences(said, further), begins_part)
            begins_part = False
        ended = ends.get(moment.position)
        if ended is not None and isinstance(moment.event, REACHED):
            yield SaidLine(moment.position, moment.at_ms, _cost(timeline, ended, moment.kind))
    yield from commits.lines(names)


def _sentences(*values: PhraseValue) -> PhraseValue:
    """Join sentences to one phrase; empty ones are left out."""
    return series("sentences", filter(None, values), limit=None)


def _part_begins(moments: Sequence[TimelineMoment]) -> Iterator[int]:
    """Yield the positions at which a new part of the story begins.

    Each is that of the first event of a command that starts a rebalance or loads the group.
    """
    command = moments[0] if moments else None
    for before, moment in pairwise(moments):
        is_next = (before.cause, before.at_ms) != (moment.cause, moment.at_ms) or isinstance(before.event, ENDS)
        command = moment if is_next or command is None else command
        if isinstance(moment.event, PARTS):
            yield command.position


def _ends_of_ownership(timeline: GroupTimeline) -> Mapping[int, list[PartitionSpan]]:
    """The spans with an owner, by the position of the event that ended them."""
    ends: dict[int, list[PartitionSpan]] = defaultdict(list)
    for spans in timeline.ownership.values():
        for span in spans:
            if span.owners and span.ended is not None:
                ends[span.ended.position].append(span)
    return ends


def _ends_of_joins(timeline: GroupTimeline) -> Mapping[int, list[HeldRequest]]:
    """The held JoinGroups, by the position of the event that ended them."""
    ends: dict[int, list[HeldRequest]] = defaultdict(list)
    for each in timeline.held_requests:
        if each.response is AwaitedResponse.JOIN and each.ended is not None:
            ends[each.ended.position].append(each)
    return ends


def _who_was_last(moment: TimelineMoment, joins: Sequence[HeldRequest], names: MemberNames) -> PhraseValue:
    """Why the join phase took so long, as a phrase: its deadline ended it, or the others waited for one member.

    Empty if it did not take long.
    """
    if moment.cause is not None and moment.cause.deadline == DeadlineKind.JOIN_PHASE:
        return phrase("join phase at its deadline")
    if len(joins) < 2:
        return ""
    *_, before, last = sorted(joins, key=lambda each: each.began.position)
    gone_after_ms = moment.at_ms - last.began.at_ms
    if gone_after_ms >= LEAST_WAIT_MS:
        return phrase("waited for a former member", length=length(gone_after_ms))
    waited_ms = last.began.at_ms - before.began.at_ms
    if waited_ms < LEAST_WAIT_MS:
        return ""
    return phrase("last JoinGroup", member=names[last.member_id], length=length(waited_ms))


def _what_it_owned(ended: Iterable[PartitionSpan], member_id: MemberId) -> PhraseValue:
    owned = [span.partition for span in ended if member_id in span.owners]
    return phrase("it owned", partitions=partitions_value(owned)) if owned else phrase("it owned nothing")


class MemberCommits:
    """The commits of one member or producer: their number, the last one, and the offset reached in each partition."""

    def __init__(self) -> None:
        self.count = 0
        self.reached: dict[TopicPartition, int] = {}
        self.last = Point(0, 0)

    def on_commit(self, offsets: OffsetsByPartition, at: Point) -> None:
        """Add a commit of these offsets."""
        self.count, self.last = self.count + 1, at
        for topic, partitions in offsets.items():
            for index, committed in partitions.items():
                self.reached[TopicPartition(topic, index)] = committed.offset


class CommitCounter:
    """Counts the commits of each member and producer between two calls of `lines`."""

    def __init__(self) -> None:
        self._commits: dict[MemberId | int, MemberCommits] = {}
        """By member id, or by the number of a producer."""

    def on_moment(self, moment: TimelineMoment) -> None:
        """Count the event of this moment if it is a commit."""
        event = moment.event
        if isinstance(event, e.OffsetsCommitted | e.OffsetsWritten | e.TransactionalOffsetsWritten):
            who = event.producer_id if isinstance(event, e.TransactionalOffsetsWritten) else event.member_id
            self._commits.setdefault(who, MemberCommits()).on_commit(event.offsets, moment.point)

    def lines(self, names: MemberNames) -> Iterator[SaidLine]:
        """Yield one line for each member and producer with commits since the last call, placed at its last commit."""
        for who, commits in self._commits.items():
            reached = sorted(commits.reached.items(), key=lambda each: f"{each[0].topic}-{each[0].partition} ")
            said = phrase(
                "commits",
                who=_committer(who, names),
                count=times(commits.count),
                reached=series(
                    "names",
                    (
                        phrase("reached", partition=f"{at.topic}-{at.partition}", offset=offset)
                        for at, offset in reached
                    ),
                ),
            )
            yield SaidLine(*commits.last, said)
        self._commits = {}


def _committer(who: MemberId | int, names: MemberNames) -> PhraseValue:
    if isinstance(who, int):
        return phrase("producer", id=who)
    return names[who] if who else phrase("no member")


def _cost(timeline: GroupTimeline, rebalance: Rebalance, kind: GroupKind) -> PhraseValue:
    """How long a rebalance took, and which partitions had no owner during it, as a phrase."""
    assert rebalance.ended is not None
    took = phrase(TOOK[kind], length=length(rebalance.ended.at_ms - rebalance.began.at_ms))
    gaps = dict(gaps_of(timeline, rebalance))
    return _sentences(took, phrase("without an owner until", gaps=_gaps(gaps)) if gaps else phrase("always owned"))


def _gaps(gaps: Mapping[TopicPartition, int]) -> PhraseValue:
    """Partitions with the lengths of their gaps: `orders 0-3 for 20.003s, orders 4-5 for 3ms`.

    If there are many different lengths, only the longest gap is named.
    """
    by_length: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, gap_ms in gaps.items():
        by_length[gap_ms].append(partition)
    if len(by_length) > MAX_LENGTHS:
        return phrase("gaps up to", partitions=partitions_value(gaps), length=length(max(by_length)))
    return series(
        "gaps",
        (
            phrase("gap", partitions=partitions_value(by_length[each]), length=length(each))
            for each in sorted(by_length, reverse=True)
        ),
    )


def gaps_of(timeline: GroupTimeline, rebalance: Rebalance) -> Iterator[tuple[TopicPartition, int]]:
    """The partitions without an owner during a rebalance, and for how many milliseconds since it started.

    The time counts until the partition's next owner has received its assignment, or until the end of the history.
    """
    assert rebalance.ended is not None
    for partition, spans in timeline.ownership.items():
        during = [span for span in spans if _is_gap_during(span, rebalance.began, rebalance.ended)]
        gap_ms = sum(
            (span.ended or timeline.last).at_ms - max(span.began.at_ms, rebalance.began.at_ms) for span in during
        )
        if gap_ms:
            yield partition, gap_ms


def _is_gap_during(span: PartitionSpan, began: Point, ended: Point) -> bool:
    return (
        not span.owners
        and span.began.position < ended.position
        and (span.ended is None or span.ended.position > began.position)
    )


def _end_state(timeline: GroupTimeline, moment: TimelineMoment, names: MemberNames) -> PhraseValue:
    """The group's state and the owners of partitions after a moment, the last one of the story, as a phrase."""
    is_last = moment is timeline.moments[-1]
    when = phrase("at the end") if is_last else phrase("after position", position=moment.position)
    if moment.state is GroupState.DEAD:
        return phrase("no group", when=when)
    leader = phrase("with leader", member=names[moment.leader_id]) if moment.leader_id else ""
    state = phrase(
        STATES[moment.kind],
        when=when,
        state=moment.state.value,
        generation=moment.generation_id,
        epoch=moment.generation_id,
        leader=leader,
    )
    owned: dict[MemberId, list[TopicPartition]] = {each: [] for each in moment.members}
    gaps = []
    for span in timeline.ownership_at(moment.position):
        for member_id in span.owners:
            owned.setdefault(member_id, []).append(span.partition)
        if not span.owners:
            gaps.append(span.partition)
    has_shares = timeline.protocol_type == "consumer" and owned
    return _sentences(
        state,
        phrase("shares of members", shares=series("shares", _shares(owned.items(), names))) if has_shares else "",
        phrase("without an owner", partitions=partitions_value(gaps)) if gaps else "",
    )


def _shares(owned: Iterable[tuple[MemberId, list[TopicPartition]]], names: MemberNames) -> Iterator[PhraseValue]:
    for member_id, partitions in owned:
        yield phrase("owns", member=names[member_id], partitions=partitions_value(partitions))
