"""What a group's history came to: its rebalances, the time without an owner, and the members that came and went."""

from itertools import pairwise

import msgspec

from regroup.classroom.timeline import GroupTimeline, PartitionSpan
from regroup.coordinator import events as e


class RunTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of one timeline, such as the number of rebalances. Times are milliseconds."""

    duration_ms: int
    events: int
    member_ids: int
    """Member ids that were ever members; a process that joins again without its id is counted again."""
    left: int
    removed: int
    rebalances: int
    rebalancing_ms: int
    """Time during which a rebalance ran."""
    longest_rebalance_ms: int
    unowned_partition_ms: int
    """Sum over all partitions of the time without an owner."""
    longest_gap_ms: int
    """The longest time that one partition had no owner."""
    moved_partitions: int
    """How often a partition got another owner than the one before."""
    commits: int


def totals_of(timeline: GroupTimeline) -> RunTotals:
    """Compute the totals of a timeline."""
    last_ms = timeline.last.at_ms
    rebalances = [(each.ended or timeline.last).at_ms - each.began.at_ms for each in timeline.rebalances]
    gaps = [gap for spans in timeline.ownership.values() for gap in _gaps_ms(spans, last_ms)]
    kinds = [type(moment.event) for moment in timeline.moments]
    return RunTotals(
        duration_ms=last_ms - timeline.began.at_ms,
        events=len(timeline.moments),
        member_ids=len({lane.member_id for lane in timeline.lanes}),
        left=kinds.count(e.MemberLeft),
        removed=kinds.count(e.MemberRemoved),
        rebalances=len(rebalances),
        rebalancing_ms=sum(rebalances),
        longest_rebalance_ms=max(rebalances, default=0),
        unowned_partition_ms=sum(gaps),
        longest_gap_ms=max(gaps, default=0),
        moved_partitions=sum(_moves(spans) for spans in timeline.ownership.values()),
        commits=kinds.count(e.OffsetsCommitted),
    )


def _gaps_ms(spans: tuple[PartitionSpan, ...], last_ms: int) -> list[int]:
    """The lengths of the times without an owner; spans without an owner that follow each other count as one time."""
    gaps: list[int] = []
    was_gap = False
    for span in spans:
        if not span.owners:
            length = (span.ended.at_ms if span.ended else last_ms) - span.began.at_ms
            if was_gap:
                gaps[-1] += length
            else:
                gaps.append(length)
        was_gap = not span.owners
    return gaps


def _moves(spans: tuple[PartitionSpan, ...]) -> int:
    owned = [span.owners for span in spans if span.owners]
    return sum(before != after for before, after in pairwise(owned))
