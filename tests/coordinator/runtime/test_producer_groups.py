"""The groups of a producer: found without a look at the others, and the same after a load."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from tests.coordinator.coordinator_harness import CoordinatorHarness

OFFSETS = (c.RequestedOffset("orders", 0, 5),)


async def write(harness: CoordinatorHarness, group_id: str, producer_id: int) -> None:
    command = c.TxnOffsetCommit(group_id=group_id, at_ms=harness.now(), producer_id=producer_id, offsets=OFFSETS)
    await harness.coordinator.txn_offset_commit(command)


async def end(harness: CoordinatorHarness, group_id: str, producer_id: int) -> None:
    command = c.EndTransaction(group_id=group_id, at_ms=harness.now(), producer_id=producer_id, committed=True)
    await harness.coordinator.end_transaction(command)


def groups_of(coordinator: GroupCoordinator, producer_id: int) -> list[str]:
    return [group.group_id for group in coordinator.groups_of_producer(producer_id)]


async def test_a_group_is_of_a_producer_from_its_first_offset_to_the_end_of_the_transaction(
    harness: CoordinatorHarness,
) -> None:
    for group_id, producer_id in (("b", 1), ("a", 1), ("b", 2), ("b", 1)):
        await write(harness, group_id, producer_id)
    assert groups_of(harness.coordinator, 1) == ["b", "a"]
    assert groups_of(harness.coordinator, 2) == ["b"]
    await end(harness, "b", 1)
    assert groups_of(harness.coordinator, 1) == ["a"]
    assert groups_of(harness.coordinator, 2) == ["b"]
    await end(harness, "a", 1)
    assert groups_of(harness.coordinator, 1) == []


async def test_a_load_finds_the_groups_of_producers_again(harness: CoordinatorHarness) -> None:
    await write(harness, "a", 1)
    harness.coordinator.begin_load()
    await harness.coordinator.start()
    assert groups_of(harness.coordinator, 1) == ["a"]


async def test_no_other_group_is_looked_at(harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(harness, "a", 1)
    monkeypatch.delattr(GroupCoordinator, "groups")
    assert groups_of(harness.coordinator, 1) == ["a"]
