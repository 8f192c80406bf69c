"""Loads groups from a store: folds snapshots and events, which are the only source of a group's state."""

from functools import partial

from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import (
    SNAPSHOT_VERSION,
    UNREADABLE_ERRORS,
    damaged,
    decode_event,
    decode_snapshot,
)
from regroup.storage.errors import StoreDamaged, UnsupportedStoreVersion
from regroup.storage.records import Record
from regroup.storage.store import EventStore, again_if_trimmed


async def load_groups(store: EventStore, until: int | None = None) -> dict[str, Group]:
    """Load every group as of a position (inclusive; by default the last one), from the newest snapshots and the records
    after them.

    Raises StoreDamaged if snapshots and records together leave out a part of a group's history.
    """
    return await again_if_trimmed(partial(_load_groups, store, until))


async def _load_groups(store: EventStore, until: int | None) -> dict[str, Group]:
    heads = await store.heads() if until is None or until >= store.last_position else {}
    after, groups = await load_snapshots(store, until)
    async for record in store.read(after=after, until=until):
        if record.group is not None:
            groups[record.group] = evolve_record(groups.get(record.group) or Group(group_id=record.group), record)
    for group_id, head in heads.items():
        # A group of another coordinator may have changed since its head was read.
        if group_id is not None and (group_id not in groups or groups[group_id].event_number < head.event_number):
            raise StoreDamaged(
                f"The snapshots leave out events of group {group_id!r}. `regroup verify` shows what is missing."
            )
    return groups


def evolve_record(group: Group, record: Record) -> Group:
    """The group after the event of a record; raises StoreDamaged if the event does not fit."""
    try:
        if not isinstance(record.group, str):
            raise TypeError(f"invalid group id: {record.group!r}")
        return evolve(group, decode_event(record))
    except UNREADABLE_ERRORS as error:
        raise damaged(f"Record {record.position}", error) from error


async def load_snapshots(store: EventStore, until: int | None) -> tuple[int, dict[str, Group]]:
    """The position after which the fold begins, and the groups as the snapshots have them. Snapshots of another version
    are ignored.

    Raises UnsupportedStoreVersion if they are of another version and the history before them has been trimmed, and
    StoreDamaged if they were taken after the last record.
    """
    position, snapshots = await store.load_snapshots(until)
    if position > store.last_position:
        raise StoreDamaged(
            f"Snapshots were taken at position {position}, but the events end at {store.last_position}: the last ones "
            "are missing. Restore the store from a copy."
        )
    if any(each.version != SNAPSHOT_VERSION for each in snapshots if each.group is not None):
        if store.trimmed_through:
            raise UnsupportedStoreVersion(
                "Another version of regroup wrote the snapshots of this store: read it with that one."
            )
        return 0, {}
    return position, {each.group: decode_snapshot(each) for each in snapshots if each.group is not None}
