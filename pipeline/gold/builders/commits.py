"""Builds the table `commits`: a row for each committed offset."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from regroup.coordinator import events as e
from regroup.coordinator.group import CommittedOffset, LogRecordKind, MemberId, OffsetsByPartition
from regroup.pipeline.gold.builders.ownership import Ownership
from regroup.pipeline.gold.builders.table_builder import TableBuilder, Transition
from regroup.pipeline.gold.folded_rows import FoldedRows
from regroup.storage.records import Record

Writers: TypeAlias = dict[tuple[str, int], MemberId]
"""By topic and partition, the member that last wrote the offset."""

FOLLOWED: Final = frozenset(
    {
        e.OffsetsWritten,
        e.AppendCommitted,
        e.AppendFailed,
        e.CoordinatorLoaded,
        e.GroupDeleted,
        e.TransactionalOffsetsWritten,
        e.TransactionEnded,
    }
)
NO_OFFSETS: Final[Mapping[int, CommittedOffset]] = {}


class OffsetCommits(TableBuilder):
    """Builds the table `commits` for one group, and notes in `ownership` the commits of each owner.

    The event that commits a late or transactional offset does not name the member; it is taken from the event that
    wrote the offset.
    """

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._late: dict[int, MemberId] = {}
        """By event number of each `offsets-written` that is not committed yet, the member that wrote the offsets."""
        self._transactional: dict[int, Writers] = {}
        """By producer id of each open transaction, the members that wrote its offsets."""

    def on_commit(
        self,
        record: Record,
        event: e.OffsetsCommitted,
        committed: OffsetsByPartition,
        newer: OffsetsByPartition,
        rows: FoldedRows,
    ) -> None:
        """Add the rows of a plain commit. The offsets before it are those in `newer`, and else those in `committed`."""
        for topic, offsets in event.offsets.items():
            previous = [*map(newer.get(topic, NO_OFFSETS).get, offsets)]
            if None in previous:
                stored = committed.get(topic, NO_OFFSETS)
                previous = [
                    stored.get(index) if each is None else each for index, each in zip(offsets, previous, strict=True)
                ]
            self._ownership.on_commit(event.member_id, topic, offsets, event.at_ms)
            rows.commits.add(
                record.position,
                record.coordinator_epoch,
                event.at_ms,
                event.member_id,
                topic,
                "immediate",
                offsets,
                previous,
            )

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        event, before = transition.event, transition.before
        if type(event) not in FOLLOWED:
            return
        match event:
            case e.OffsetsWritten():
                self._late[transition.after.event_number] = event.member_id
            case e.AppendCommitted():
                append = before.pending_appends[event.append_number]
                member_id = self._late.pop(event.append_number, "")
                if append.kind is LogRecordKind.OFFSETS:
                    for topic, offsets in append.offsets.items():
                        self._add(transition, topic, offsets, "delayed", member_id, rows)
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
                    self._add_transactional(transition, event.producer_id, writers, rows)

    def _add_transactional(
        self, transition: Transition, producer_id: int, writers: Mapping[tuple[str, int], MemberId], rows: FoldedRows
    ) -> None:
        """Add the rows of a transaction that was committed; each offset may have another writer."""
        for topic, partitions in transition.before.pending_transactional_offsets.get(producer_id, {}).items():
            for index, pending in partitions.items():
                if not pending.is_superseded:
                    member_id = writers.get((topic, index), "")
                    self._add(transition, topic, {index: pending.offset}, "transactional", member_id, rows)

    def _add(
        self,
        transition: Transition,
        topic: str,
        offsets: Mapping[int, CommittedOffset],
        kind: str,
        member_id: MemberId,
        rows: FoldedRows,
    ) -> None:
        record, before = transition.record, transition.before.committed_offsets.get(topic, NO_OFFSETS)
        self._ownership.on_commit(member_id, topic, offsets, transition.at_ms)
        previous = [*map(before.get, offsets)]
        rows.commits.add(
            record.position, record.coordinator_epoch, transition.at_ms, member_id, topic, kind, offsets, previous
        )
