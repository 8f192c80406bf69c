"""Folding events about offsets, those of open transactions among them."""

from collections.abc import Collection, Mapping
from typing import TypeVar

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.group import Group, Offsets, PendingOffset, PendingOffsets

Key = TypeVar("Key")
Value = TypeVar("Value")


def offsets_committed(group: Group, event: e.OffsetsCommitted) -> Group:
    offsets = merged(group.offsets, event.offsets)
    if not group.pending_offsets:
        return replace(group, offsets=offsets)
    return replace(group, offsets=offsets, pending_offsets=overtaken(group, event.offsets, before=group.number + 1))


def transactional_offsets_written(group: Group, event: e.TransactionalOffsetsWritten) -> Group:
    """They stand aside until the transaction ends; its own later ones replace its earlier ones."""
    written = {
        topic: {number: PendingOffset(offset, group.number + 1) for number, offset in partitions.items()}
        for topic, partitions in event.offsets.items()
    }
    pending = merged(group.pending_offsets.get(event.producer_id, {}), written)
    return replace(group, pending_offsets=group.pending_offsets | {event.producer_id: pending})


def transaction_ended(group: Group, event: e.TransactionEnded) -> Group:
    """Of a partition that others have committed since, the later commit stays."""
    ended = group.pending_offsets[event.producer_id]
    group = replace(group, pending_offsets=without(group.pending_offsets, event.producer_id))
    if not event.committed:
        return group
    for topic, partitions in ended.items():
        for number, pending in partitions.items():
            if not pending.overtaken:
                settled = {topic: {number: pending.offset}}
                group = replace(
                    group,
                    offsets=merged(group.offsets, settled),
                    pending_offsets=overtaken(group, settled, before=pending.number),
                )
    return group


def offsets_forgotten(group: Group, event: e.OffsetsForgotten) -> Group:
    """What open transactions wrote for these partitions is forgotten too, and what Kafka's log has yet to commit."""
    gone = event.partitions
    return replace(
        group,
        offsets=cut_out(group.offsets, gone),
        pending_offsets={producer: cut_out(pending, gone) for producer, pending in group.pending_offsets.items()},
        appends={
            number: replace(append, offsets=cut_out(append.offsets, gone)) for number, append in group.appends.items()
        },
    )


def overtaken(group: Group, offsets: Offsets, before: int) -> dict[int, PendingOffsets]:
    """The pending offsets, after these were committed: those written earlier for the same partitions count no more."""
    return {
        producer: {
            topic: {
                number: replace(each, overtaken=True)
                if number in offsets.get(topic, ()) and each.number < before
                else each
                for number, each in partitions.items()
            }
            for topic, partitions in pending.items()
        }
        for producer, pending in group.pending_offsets.items()
    }


def merged(
    present: Mapping[str, dict[int, Value]], newer: Mapping[str, dict[int, Value]]
) -> dict[str, dict[int, Value]]:
    """By topic and partition; where both speak, the newer."""
    return {**present, **{topic: present.get(topic, {}) | partitions for topic, partitions in newer.items()}}


def cut_out(
    present: Mapping[str, dict[int, Value]], gone: Mapping[str, Collection[int]]
) -> dict[str, dict[int, Value]]:
    """Without these partitions, and without topics of which nothing is left."""
    left = {
        topic: {number: value for number, value in partitions.items() if number not in gone.get(topic, ())}
        for topic, partitions in present.items()
    }
    return {topic: partitions for topic, partitions in left.items() if partitions}


def without(mapping: Mapping[Key, Value], gone: Key | None) -> dict[Key, Value]:
    return {key: value for key, value in mapping.items() if key != gone}
