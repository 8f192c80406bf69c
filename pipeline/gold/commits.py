"""Every committed offset: the table `commits`."""

from collections.abc import Iterator

from regroup.coordinator import events as e
from regroup.coordinator.group import LogRecordKind, MemberId, OffsetsByPartition
from regroup.pipeline.gold.table_builder import TableBuilder, TableRow, Transition


class OffsetCommits(TableBuilder):
    """Builds `commits` of one group."""

    def on_event(self, transition: Transition) -> Iterator[TableRow]:
        event, before = transition.event, transition.before
        match event:
            case e.OffsetsCommitted():
                yield from commit_rows(transition, event.offsets, event.member_id, "immediate")
            case e.AppendCommitted():
                append = before.pending_appends[event.append_number]
                if append.kind is LogRecordKind.OFFSETS:
                    yield from commit_rows(transition, append.offsets, "", "delayed")
            case e.TransactionEnded(committed=True):
                pending = before.pending_transactional_offsets.get(event.producer_id, {})
                offsets = {
                    topic: {index: each.offset for index, each in partitions.items() if not each.is_superseded}
                    for topic, partitions in pending.items()
                }
                yield from commit_rows(transition, offsets, "", "transactional")


def commit_rows(
    transition: Transition, offsets: OffsetsByPartition, member_id: MemberId, kind: str
) -> Iterator[TableRow]:
    for topic, partitions in offsets.items():
        for index, committed in partitions.items():
            previous = transition.before.committed_offset(topic, index)
            yield (
                "commits",
                {
                    "position": transition.record.position,
                    "coordinator_epoch": transition.record.coordinator_epoch,
                    "at_ms": transition.at_ms,
                    "member_id": member_id or None,
                    "topic": topic,
                    "partition": index,
                    "offset": committed.offset,
                    "previous_offset": previous.offset if previous else None,
                    "reprocessed": max(0, previous.offset - committed.offset) if previous else 0,
                    "kind": kind,
                },
            )
