"""Folding events about offsets, transactional ones included."""

from collections.abc import Collection, Mapping
from typing import TypeVar

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.group import (
    Group,
    OffsetsByPartition,
    PendingTransactionalOffset,
    PendingTransactionalOffsets,
    without,
)

Value = TypeVar("Value")


def offsets_committed(group: Group, event: e.OffsetsCommitted) -> Group:
    offsets = merge_offsets(group.committed_offsets, event.offsets)
    if not group.pending_transactional_offsets:
        return replace(group, committed_offsets=offsets)
    return replace(
        group,
        committed_offsets=offsets,
        pending_transactional_offsets=with_superseded(group, event.offsets, before=group.event_number + 1),
    )


def transactional_offsets_written(group: Group, event: e.TransactionalOffsetsWritten) -> Group:
    """They are kept apart until the transaction ends; a transaction's later offsets replace its earlier ones."""
    written = {
        topic: {
            index: PendingTransactionalOffset(offset, group.event_number + 1) for index, offset in partitions.items()
        }
        for topic, partitions in event.offsets.items()
    }
    pending = merge_offsets(group.pending_transactional_offsets.get(event.producer_id, {}), written)
    by_producer = group.pending_transactional_offsets | {event.producer_id: pending}
    return replace(group, pending_transactional_offsets=by_producer)


def transaction_ended(group: Group, event: e.TransactionEnded) -> Group:
    """Commit or drop the offsets of the transaction; an offset that a later commit superseded is dropped."""
    ended = group.pending_transactional_offsets[event.producer_id]
    remaining = without(group.pending_transactional_offsets, event.producer_id)
    group = replace(group, pending_transactional_offsets=remaining)
    if not event.committed:
        return group
    for topic, partitions in ended.items():
        for index, pending in partitions.items():
            if not pending.is_superseded:
                committed = {topic: {index: pending.offset}}
                group = replace(
                    group,
                    committed_offsets=merge_offsets(group.committed_offsets, committed),
                    pending_transactional_offsets=with_superseded(group, committed, before=pending.event_number),
                )
    return group


def offsets_deleted(group: Group, event: e.OffsetsDeleted) -> Group:
    """Delete offsets, also those of open transactions and those that the log has written and not committed."""
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


def with_superseded(group: Group, committed: OffsetsByPartition, before: int) -> dict[int, PendingTransactionalOffsets]:
    """The pending transactional offsets after a commit: those written before event `before` to the same partitions
    are superseded."""
    return {
        producer_id: {
            topic: {
                index: replace(each, is_superseded=True)
                if index in committed.get(topic, ()) and each.event_number < before
                else each
                for index, each in partitions.items()
            }
            for topic, partitions in pending.items()
        }
        for producer_id, pending in group.pending_transactional_offsets.items()
    }


def merge_offsets(
    present: Mapping[str, dict[int, Value]], newer: Mapping[str, dict[int, Value]]
) -> dict[str, dict[int, Value]]:
    """Both mappings by topic and partition; the newer offset wins."""
    merged = dict(present)
    for topic, partitions in newer.items():
        merged[topic] = {**merged.get(topic, {}), **partitions}
    return merged


def without_partitions(
    present: Mapping[str, dict[int, Value]], deleted: Mapping[str, Collection[int]]
) -> dict[str, dict[int, Value]]:
    """The mapping without these partitions, and without topics that have none left."""
    remaining = {
        topic: {index: value for index, value in partitions.items() if index not in deleted.get(topic, ())}
        for topic, partitions in present.items()
    }
    return {topic: partitions for topic, partitions in remaining.items() if partitions}
