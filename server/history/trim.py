"""Finds where a history can begin later, and saves snapshots there, so that the events before can be trimmed."""

from msgspec.structs import replace

from regroup.coordinator.group import Group
from regroup.coordinator.runtime.loading import evolve_record, load_groups, load_snapshots
from regroup.coordinator.serialization import SNAPSHOT_VERSION as GROUP_SNAPSHOT_VERSION
from regroup.coordinator.serialization import encode_snapshot
from regroup.server.cluster.events import decode_cluster_event
from regroup.server.cluster.image import (
    SNAPSHOT_VERSION,
    ClusterImage,
    decode_cluster_snapshot,
    encode_cluster_snapshot,
    evolve_cluster,
)
from regroup.storage.records import Record, Snapshot
from regroup.storage.store import EventStore


async def save_snapshots_at(store: EventStore, position: int) -> None:
    """Fold the events up to and including this position, and save snapshots of the groups and of the cluster there.

    Raises StoreDamaged if earlier snapshots leave a group out, since a trim would lose it.
    """
    await load_groups(store)
    after, groups = await load_snapshots(store, position)
    _, snapshots = await store.load_snapshots(after)
    image = next((decode_cluster_snapshot(each) for each in snapshots if each.group is None), ClusterImage())
    last: dict[str | None, Record] = {}
    async for record in store.read(after=after, until=position):
        last[record.group] = record
        if record.group is None:
            image = evolve_cluster(image, decode_cluster_event(record))
        else:
            groups[record.group] = evolve_record(groups.get(record.group) or Group(group_id=record.group), record)
    await store.save_snapshots(position, [_snapshot(record, groups, image) for record in last.values()])


def _snapshot(last: Record, groups: dict[str, Group], image: ClusterImage) -> Snapshot:
    """The state of a group, or of the cluster, as an encoded snapshot. `last` is its last record up to the cut."""
    number, position, epoch = last.event_number, last.position, last.coordinator_epoch
    if last.group is None:
        return encode_cluster_snapshot(image, event_number=number, position=position, coordinator_epoch=epoch)
    return replace(encode_snapshot(groups[last.group], position, epoch), event_number=number)


def has_this_version(snapshot: Snapshot) -> bool:
    """Whether this version of the program can read the snapshot."""
    return snapshot.version == (SNAPSHOT_VERSION if snapshot.group is None else GROUP_SNAPSHOT_VERSION)


async def last_position_before(store: EventStore, time_ms: int) -> int:
    """Return the position of the last event that was stored before `time_ms`, in milliseconds since 1970.

    Time in a store never goes backwards. If all events from before that time were trimmed, the result is the position
    of the last trimmed event.
    """
    low, high = store.trimmed_through, store.last_position
    while low < high:
        middle = (low + high + 1) // 2
        times = [record.at_ms async for record in store.read(after=middle - 1, until=middle)]
        if times and times[0] < time_ms:
            low = middle
        else:
            high = middle - 1
    return low


async def newest_cut_before(store: EventStore, time_ms: int) -> int:
    """The newest cut whose events are all from before this time, if snapshots of this version cover them; otherwise 0.

    The events up to it can be trimmed while coordinators run, which take snapshots themselves.
    """
    last = await last_position_before(store, time_ms)
    if not any(store.trimmed_through < cut <= last for cut in await store.cuts()):
        return 0
    cut, snapshots = await store.load_snapshots(last)
    return cut if all(map(has_this_version, snapshots)) else 0
