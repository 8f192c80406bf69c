"""Builds the table `commits`: a row for each committed offset."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from regroup.coordinator import events as e
from regroup.coordinator.group import LogRecordKind, MemberId, OffsetsByPartition
from regroup.pipeline.gold.builders.ownership import Ownership
from regroup.pipeline.gold.builders.table_builder import TableBuilder, TableRow, Transition

Writers: TypeAlias = dict[tuple[str, int], MemberId]
"""By topic and partition, the member that last wrote the offset."""


class OffsetCommits(TableBuilder):
    """Builds the table `commits` for one group, and counts in `ownership` the commits of each owner.

    The event that commits a late or transactional offset does not name the member; it is taken from the event that
    wrote the offset.
    """

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._late: dict[int, MemberId] = {}
        """By event number of each `offsets-written` that is not committed yet, the member that wrote the offsets."""
        self._transactional: dict[int, Writers] = {}
        """By producer id of each open transaction, the members that wrote its offsets."""

    def on_event(self, transition: Transition) -> Iterator[TableRow]:
        event, before = transition.event, transition.before
        match event:
            case e.OffsetsCommitted():
                yield from self._rows(transition, event.offsets, "immediate", event.member_id)
            case e.OffsetsWritten():
                self._late[transition.after.event_number] = event.member_id
            case e.AppendCommitted():
                append = before.pending_appends[event.append_number]
                member_id = self._late.pop(event.append_number, "")
                if append.kind is LogRecordKind.OFFSETS:
                    yield from self._rows(transition, append.offsets, "delayed", member_id)
            case e.AppendFailed():
                self._late.pop(event.append_number, None)
            case e.CoordinatorLoaded() | e.GroupDeleted():
                self._late.clear()
            case e.TransactionalOffsetsWritten():
                writers = self._transactional.setdefault(event.producer_id, {})
                for topic, offsets in event.offsets.items():
                    writers |= dict.fromkeys(((topic, index) for index in offsets), event.member_id)
            case e.TransactionEnded():
                writers = self._transactional.pop(event.producer_id, {})
                if event.committed:
                    pending = before.pending_transactional_offsets.get(event.producer_id, {})
                    committed = {
                        topic: {index: each.offset for index, each in partitions.items() if not each.is_superseded}
                        for topic, partitions in pending.items()
                    }
                    yield from self._rows(transition, committed, "transactional", "", writers)

    def _rows(
        self,
        transition: Transition,
        offsets: OffsetsByPartition,
        kind: str,
        member_id: MemberId,
        writers: Mapping[tuple[str, int], MemberId] = {},  # it is not changed
    ) -> Iterator[TableRow]:
        at_ms, record = transition.at_ms, transition.record
        position, epoch, on_commit = record.position, record.coordinator_epoch, self._ownership.on_commit
        for topic, partitions in offsets.items():
            before = transition.before.committed_offsets.get(topic, {})
            for index, committed in partitions.items():
                writer = writers.get((topic, index), member_id) if writers else member_id
                on_commit(writer, topic, index, at_ms)
                previous = before.get(index)
                last = None if previous is None else previous.offset
                yield (
                    "commits",
                    (
                        position,
                        epoch,
                        at_ms,
                        writer or None,
                        topic,
                        index,
                        committed.offset,
                        last,
                        0 if last is None else max(0, last - committed.offset),
                        kind,
                    ),
                )
