"""Folds events about committed and transactional offsets, and about records that the emulated Kafka log commits late or
loses.
"""

from collections.abc import Collection, Mapping
from typing import TypeVar

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.group import (
    Group,
    GroupMetadata,
    GroupState,
    LogRecordKind,
    OffsetsByPartition,
    PendingAppend,
    PendingTransactionalOffset,
    PendingTransactionalOffsets,
)
from regroup.coordinator.layered_mapping import with_newer, without

Value = TypeVar("Value")


def offsets_committed(group: Group, event: e.OffsetsCommitted) -> Group:
    offsets = merge_offsets(group.committed_offsets, event.offsets)
    if not group.pending_transactional_offsets:
        return replace(group, committed_offsets=offsets)
    return replace(
        group,
        committed_offsets=offsets,
        pending_transactional_offsets=with_superseded(group, written_at(event.offsets, group.next_event_number)),
    )


def transactional_offsets_written(group: Group, event: e.TransactionalOffsetsWritten) -> Group:
    """The group with offsets that a producer has written in a transaction. They are pending until the transaction ends;
    later offsets of the same transaction replace them."""
    written = {
        topic: {
            index: PendingTransactionalOffset(offset, group.next_event_number) for index, offset in partitions.items()
        }
        for topic, partitions in event.offsets.items()
    }
    pending = merge_offsets(group.pending_transactional_offsets.get(event.producer_id, {}), written)
    by_producer = group.pending_transactional_offsets | {event.producer_id: pending}
    return replace(group, pending_transactional_offsets=by_producer)


def transaction_ended(group: Group, event: e.TransactionEnded) -> Group:
    """The group after a transaction's end: its offsets are committed or dropped. An offset that a later commit
    superseded is dropped in any case."""
    ended = group.pending_transactional_offsets[event.producer_id]
    remaining = without(group.pending_transactional_offsets, event.producer_id)
    group = replace(group, pending_transactional_offsets=remaining)
    if not event.committed:
        return group
    winning = {
        topic: {index: pending for index, pending in partitions.items() if not pending.is_superseded}
        for topic, partitions in ended.items()
    }
    committed = {
        topic: {index: pending.offset for index, pending in partitions.items()}
        for topic, partitions in winning.items()
        if partitions
    }
    written_by = {
        topic: {index: pending.event_number for index, pending in partitions.items()}
        for topic, partitions in winning.items()
    }
    return replace(
        group,
        committed_offsets=merge_offsets(group.committed_offsets, committed),
        pending_transactional_offsets=with_superseded(group, written_by),
    )


def offsets_deleted(group: Group, event: e.OffsetsDeleted) -> Group:
    """The group without these offsets, also without those of open transactions and those that the log has written and
    not committed."""
    deleted = event.partitions
    return replace(
        group,
        committed_offsets=without_partitions(group.committed_offsets, deleted),
        pending_transactional_offsets={
            producer_id: without_partitions(pending, deleted)
            for producer_id, pending in group.pending_transactional_offsets.items()
        },
        pending_appends={
            append_number: replace(append, offsets=without_partitions(append.offsets, deleted))
            for append_number, append in group.pending_appends.items()
        },
    )


def offsets_written(group: Group, event: e.OffsetsWritten) -> Group:
    return group.with_pending_append(
        PendingAppend(kind=LogRecordKind.OFFSETS, deadline_ms=event.commit_deadline_ms, offsets=event.offsets)
    )


def append_timed_out(group: Group, event: e.AppendTimedOut) -> Group:
    append = replace(group.pending_appends[event.append_number], has_timed_out=True)
    return replace(group, pending_appends=group.pending_appends | {event.append_number: append})


def append_committed(group: Group, event: e.AppendCommitted) -> Group:
    """The group after the log has committed a record: a failover restores it from now on, even if the group has changed
    since it was written."""
    append = group.pending_appends[event.append_number]
    return replace(
        group,
        pending_appends=without(group.pending_appends, event.append_number),
        group_metadata=newer_metadata(group.group_metadata, append.group_metadata),
        committed_offsets=merge_offsets(group.committed_offsets, append.offsets),
        pending_transactional_offsets=with_superseded(group, written_at(append.offsets, event.append_number)),
    )


def append_failed(group: Group, event: e.AppendFailed) -> Group:
    """The group after the log has lost a record: what the record had changed in memory is undone.

    A lost assignment is undone by the rebalance that follows. The replacement of a static member is undone in any
    state, also while other members join.
    """
    append = group.pending_appends[event.append_number]
    group = replace(group, pending_appends=without(group.pending_appends, event.append_number))
    if append.kind is LogRecordKind.GROUP_CREATION or is_vacant(group):
        return Group(group_id=group.group_id, loaded_at_ms=group.loaded_at_ms)
    if append.kind is LogRecordKind.STATIC_MEMBER_REPLACEMENT:
        return with_member_restored(group, append)
    return group


def is_vacant(group: Group) -> bool:
    """Whether the group was created for a commit alone, and that commit failed."""
    return group.state is GroupState.EMPTY and not (
        group.group_metadata
        or group.committed_offsets
        or group.pending_transactional_offsets
        or group.pending_appends
        or group.pending_join_members
    )


def with_member_restored(group: Group, append: PendingAppend) -> Group:
    """The group with the replacement of a static member undone, unless that member has restarted again since."""
    old = append.replaced_member
    if old is None or old.instance_id is None or group.static_members.get(old.instance_id) != append.member_id:
        return group
    restored = replace(
        group.members[append.member_id],
        member_id=old.member_id,
        profile=old.profile,
        replaced_at_ms=old.replaced_at_ms,
        replaced_session_timeout_ms=old.replaced_session_timeout_ms,
    )
    return replace(
        group,
        members=with_newer(without(group.members, append.member_id), {old.member_id: restored}),
        static_members=with_newer(group.static_members, {old.instance_id: old.member_id}),
        leader_id=old.member_id if group.leader_id == append.member_id else group.leader_id,
    )


def newer_metadata(present: GroupMetadata | None, committed: GroupMetadata | None) -> GroupMetadata | None:
    """Of two metadata records the one of the later generation. A record that is committed late does not replace a newer
    one."""
    if present is None or committed is None:
        return committed or present
    return committed if committed.generation_id >= present.generation_id else present


def written_at(offsets: OffsetsByPartition, event_number: int) -> dict[str, dict[int, int]]:
    """For every partition in `offsets` the number `event_number`, that of the event which wrote these offsets."""
    return {topic: dict.fromkeys(partitions, event_number) for topic, partitions in offsets.items()}


def with_superseded(
    group: Group, committed_by: Mapping[str, Mapping[int, int]]
) -> dict[int, PendingTransactionalOffsets]:
    """The pending transactional offsets after a commit: those written to the same partitions before the event that
    wrote the committed offset are superseded. `committed_by` has the number of that event."""
    return {
        producer_id: {
            topic: {
                index: replace(each, is_superseded=True)
                if each.event_number < committed_by.get(topic, {}).get(index, 0)
                else each
                for index, each in partitions.items()
            }
            for topic, partitions in pending.items()
        }
        for producer_id, pending in group.pending_transactional_offsets.items()
    }


def merge_offsets(
    present: Mapping[str, Mapping[int, Value]], newer: Mapping[str, Mapping[int, Value]]
) -> Mapping[str, Mapping[int, Value]]:
    """Both mappings by topic and partition together; where both have a value, the newer one counts."""
    return with_newer(
        present, {topic: with_newer(present.get(topic, {}), partitions) for topic, partitions in newer.items()}
    )


def without_partitions(
    present: Mapping[str, Mapping[int, Value]], deleted: Mapping[str, Collection[int]]
) -> dict[str, dict[int, Value]]:
    """The offsets without those of the deleted partitions; topics without any offset left are removed."""
    indexes = {topic: frozenset(partitions) for topic, partitions in deleted.items()}
    remaining = {
        topic: {index: value for index, value in partitions.items() if index not in indexes.get(topic, ())}
        for topic, partitions in present.items()
    }
    return {topic: partitions for topic, partitions in remaining.items() if partitions}
