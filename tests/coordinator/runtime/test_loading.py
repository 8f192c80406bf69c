"""Loading groups from a store: snapshots, the records after them, and what is refused."""

import pytest
from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.evolve import fold
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.runtime.loading import evolve_record, load_groups
from regroup.coordinator.serialization import EVENT_VERSION, UnknownEvent, encode_event, encode_snapshot
from regroup.storage.errors import StoreDamaged, UnsupportedStoreVersion
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord, Record, Snapshot

HISTORY = (
    e.GroupCreated(at_ms=1, by_join=True),
    e.PendingMemberAdded(at_ms=2, member_id="anna", client_id="c", session_timeout_ms=10_000),
    e.PendingMemberRemoved(at_ms=3, member_id="anna"),
)


def group_after(events: int, group_id: str = "payments") -> Group:
    return fold(Group(group_id=group_id), HISTORY[:events])


def records(group_id: str = "payments") -> list[NewRecord]:
    return [encode_event(group_id, number, 1, event, None) for number, event in enumerate(HISTORY, 1)]


async def store_with(*new: NewRecord) -> MemoryStore:
    store = MemoryStore()
    await store.append(new)
    return store


def snapshot(events: int, group_id: str = "payments", *, position: int | None = None) -> Snapshot:
    return encode_snapshot(group_after(events, group_id), position or events, 1)


async def test_a_load_folds_the_records_up_to_a_position() -> None:
    store = await store_with(*records())
    assert await load_groups(store) == {"payments": group_after(3)}
    assert await load_groups(store, until=2) == {"payments": group_after(2)}


async def test_a_load_starts_at_the_newest_snapshots() -> None:
    store = await store_with(*records())
    marked = replace(group_after(2), state=GroupState.STABLE)
    await store.save_snapshots(2, [encode_snapshot(marked, 2, 1)])
    loaded = (await load_groups(store))["payments"]
    assert (loaded.state, loaded.event_number) == (GroupState.STABLE, 3), "the first two records are not folded"


@pytest.mark.parametrize("covered", [0, 2])
async def test_snapshots_that_leave_out_events_are_damaged(covered: int) -> None:
    store = await store_with(*records("first"), *records("second"))
    second = [snapshot(covered, "second", position=3 + covered)] if covered else []
    await store.save_snapshots(6, [snapshot(3, "first"), *second])
    with pytest.raises(StoreDamaged, match="The snapshots leave out events of group 'second'"):
        await load_groups(store)
    assert (await load_groups(store, until=4))["second"] == group_after(1, "second"), "before these snapshots"


class BusyStore(MemoryStore):
    """A store to which another coordinator appends an event while a load waits for the snapshots."""

    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        await self.append([records("another")[self.last_position - 3]])
        return await super().load_snapshots(at)


async def test_a_group_of_another_coordinator_may_change_during_a_load() -> None:
    store = BusyStore()
    await store.append(records())
    for events in (1, 2, 3):
        loaded = await load_groups(store)
        assert loaded == {"payments": group_after(3), "another": group_after(events, "another")}


async def test_snapshots_of_another_version_are_ignored_while_the_whole_history_is_there() -> None:
    store = await store_with(*records())
    await store.save_snapshots(2, [replace(snapshot(2), version=99, payload=b"{}")])
    assert await load_groups(store) == {"payments": group_after(3)}


async def test_snapshots_of_another_version_are_refused_after_a_trim() -> None:
    store = await store_with(*records())
    await store.save_snapshots(2, [replace(snapshot(2), version=99, payload=b"{}")])
    await store.trim(3)
    with pytest.raises(UnsupportedStoreVersion, match="Another version of regroup wrote the snapshots"):
        await load_groups(store)


def stored(new: NewRecord, **changes: object) -> Record:
    return replace(new.stored_at(1), **changes)


def test_an_event_that_does_not_fit_the_group_is_damaged() -> None:
    left = encode_event("payments", 1, 1, e.MemberLeft(at_ms=1, member_id="unknown"), None)
    with pytest.raises(StoreDamaged, match="Record 1 is damaged"):
        evolve_record(Group(group_id="payments"), stored(left))


@pytest.mark.parametrize("payload", [b"{", b'{"at_ms":1,"by_join":true,"added_later":1}'])
def test_an_event_that_cannot_be_decoded_or_has_unknown_fields_is_damaged(payload: bytes) -> None:
    with pytest.raises(StoreDamaged, match="Record 1 is damaged"):
        evolve_record(Group(group_id="payments"), stored(records()[0], payload=payload))


@pytest.mark.parametrize("change", [{"type": "group-renamed"}, {"version": EVENT_VERSION + 1}])
def test_an_event_of_an_unknown_type_or_version_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(UnknownEvent, match="which this version of regroup does not know"):
        evolve_record(Group(group_id="payments"), stored(records()[0], **change))


async def test_a_snapshot_that_cannot_be_decoded_is_damaged() -> None:
    store = await store_with(*records())
    await store.save_snapshots(2, [replace(snapshot(2), payload=b'{"group_id":"payments","added_later":1}')])
    with pytest.raises(StoreDamaged, match="The snapshot of 'payments' at position 2 is damaged"):
        await load_groups(store)
