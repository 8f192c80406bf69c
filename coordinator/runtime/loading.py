"""Reading groups back from a store: the fold is the only source of what a group is."""

from collections.abc import AsyncIterator

from regroup.coordinator.events import Event
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import ILLEGIBLE, SNAPSHOT_VERSION, damaged, read, read_snapshot
from regroup.storage.errors import StoreIsDamaged, StoreIsNewer
from regroup.storage.records import Record
from regroup.storage.store import ANY, EventStore, Groups


async def load_groups(store: EventStore, until: int | None = None) -> dict[str, Group]:
    """Every group as of a position (the last, if none is given), from the newest snapshots and what came after.

    Raises StoreIsDamaged where that cannot be all, rather than going on with half of a group's history.
    """
    heads = await store.heads() if until is None or until >= store.last_position else {}
    after, groups = await load_snapshots(store, until)
    async for record in store.read(after=after, until=until):
        if record.group is not None:
            groups[record.group] = folded(groups.get(record.group) or Group(name=record.group), record)
    for name, head in heads.items():
        if name is not None and (name not in groups or groups[name].number < head.number):
            raise StoreIsDamaged(f"Snapshots leave out what happened to group {name!r}. Ask `regroup verify` for more.")
    return groups


def folded(group: Group, record: Record) -> Group:
    """The group after what a record tells of it; raises StoreIsDamaged if that makes no sense."""
    try:
        if not isinstance(record.group, str):
            raise TypeError("its group's name is no text")
        return evolve(group, read(record))
    except ILLEGIBLE as error:
        raise damaged(f"Record {record.position}", error) from error


async def load_snapshots(store: EventStore, until: int | None) -> tuple[int, dict[str, Group]]:
    """Where the fold may begin, and from what. Snapshots in another shape than ours are left aside, all of them.

    Raises StoreIsNewer if the history before them has been trimmed away, so that there is nothing else to begin from.
    """
    cut, snapshots = await store.load_snapshots(until)
    if any(each.version != SNAPSHOT_VERSION for each in snapshots if each.group is not None):
        if store.trimmed_through:
            raise StoreIsNewer("A snapshot here has another shape than this regroup's: open it with a newer regroup.")
        return 0, {}
    return cut, {each.group: read_snapshot(each) for each in snapshots if each.group is not None}


async def history(
    store: EventStore, *, group: str | Groups = ANY, after: int = 0, until: int | None = None
) -> AsyncIterator[tuple[Record, Event]]:
    """The records about groups, each with its event, in order of position."""
    async for record in store.read(group=group, after=after, until=until):
        if record.group is not None:
            yield record, read(record)
