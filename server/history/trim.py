"""A cut through a store's history: every group and the topics as of one position, so that what came before may go."""

from msgspec.structs import replace

from regroup.coordinator.group import Group
from regroup.coordinator.runtime.loading import folded, load_groups, load_snapshots
from regroup.coordinator.serialization import snapshot
from regroup.server.cluster.events import read_event
from regroup.server.cluster.topics import SNAPSHOT_VERSION, Topics, from_snapshot, snapshot_of
from regroup.server.cluster.topics import evolve as evolve_topics
from regroup.storage.records import Record, Snapshot
from regroup.storage.store import EventStore


async def make_cut(store: EventStore, at: int) -> None:
    """Fold the history up to this position, and save what it adds up to.

    Raises StoreIsDamaged where earlier snapshots leave a group out: whoever trimmed then would lose it for good.
    """
    await load_groups(store)
    after, groups = await load_snapshots(store, at)
    topics = await topics_of(store, after)
    last: dict[str | None, Record] = {}
    async for record in store.read(after=after, until=at):
        last[record.group] = record
        if record.group is None:
            topics = evolve_topics(topics, read_event(record))
        else:
            groups[record.group] = folded(groups.get(record.group) or Group(name=record.group), record)
    await store.save_snapshots(at, [as_snapshot(record, groups, topics) for record in last.values()])


async def topics_of(store: EventStore, cut: int) -> Topics:
    """The topics as of an earlier cut."""
    _, snapshots = await store.load_snapshots(cut)
    return next((from_snapshot(each.payload) for each in snapshots if each.group is None), Topics())


def as_snapshot(last: Record, groups: dict[str, Group], topics: Topics) -> Snapshot:
    """The state after the last record of a group, or of the topics."""
    if last.group is None:
        payload = snapshot_of(topics)
        return Snapshot(None, last.number, last.position, last.reign, SNAPSHOT_VERSION, payload)
    return replace(snapshot(groups[last.group], last.position, last.reign), number=last.number)
