"""The timer of a large group: a change of one member looks at the deadlines of that member, not of all."""

import asyncio

import pytest
from msgspec.structs import replace

from regroup.coordinator.commands import Deadline
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.group import Group
from regroup.coordinator.runtime import group_coordinator
from regroup.coordinator.runtime.deadlines import next_deadline
from regroup.coordinator.topics import NO_TOPICS
from regroup.protocol.errors import ErrorCode
from tests.coordinator.coordinator_harness import CoordinatorHarness, run_ready

COUNT = 30
SESSION_TIMEOUT_S = 45


class Lookups:
    """Notes how many members and new member ids each search for the earliest deadline looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        monkeypatch.setattr(group_coordinator, "next_deadline", self._next_deadline)

    def _next_deadline(self, group: Group, last_seen_ms: dict[str, int]) -> Deadline | None:
        members = group.consumer.members if group.consumer else group.members
        self.sizes.append(len(members) + len(group.pending_join_members))
        return next_deadline(group, last_seen_ms)


def joining(harness: CoordinatorHarness, member_id: str) -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(
        group_id=harness.group.group_id,
        at_ms=harness.now(),
        member_id=member_id,
        requires_member_id=True,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topics=("orders",),
        owned={},
        topics=NO_TOPICS,
    )


async def join_all(harness: CoordinatorHarness) -> None:
    for index in range(COUNT):
        harness.submit(joining(harness, f"m{index}"))
        await asyncio.sleep(0.01)


async def test_a_member_that_joins_has_only_its_own_deadline_looked_at(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = Lookups(monkeypatch)
    await join_all(harness)
    assert len(lookups.sizes) >= COUNT
    assert max(lookups.sizes) <= 1


async def test_a_new_member_id_has_only_its_own_deadline_looked_at(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = Lookups(monkeypatch)
    for index in range(COUNT):
        harness.submit(harness.join_group(f"m{index}", supports_member_id_required=True))
        await run_ready()
    for index in range(COUNT):
        harness.submit(harness.join_group(f"m{index}", member_id=f"m{index}", supports_member_id_required=True))
        await run_ready()
    assert list(harness.group.member_ids) == [f"m{index}" for index in range(COUNT)]
    assert len(lookups.sizes) >= 2 * COUNT
    assert max(lookups.sizes) <= 1


async def test_every_new_member_id_that_is_not_used_is_removed_in_its_time(harness: CoordinatorHarness) -> None:
    for index in range(3):
        harness.submit(harness.join_group(f"m{index}", supports_member_id_required=True))
        await asyncio.sleep(1)
    await asyncio.sleep(10 - 3)
    for pending in (["m1", "m2"], ["m2"], []):
        await asyncio.sleep(0.5)
        assert list(harness.group.pending_join_members) == pending
        await asyncio.sleep(0.5)


async def test_a_new_member_id_with_a_shorter_timeout_than_the_first_is_removed_in_its_time(
    harness: CoordinatorHarness,
) -> None:
    for member_id, timeout_ms in (("long", 45_000), ("short", 10_000)):
        fields = {"session_timeout_ms": timeout_ms, "supports_member_id_required": True}
        harness.submit(harness.join_group(member_id, **fields))
        await asyncio.sleep(1)
    await asyncio.sleep(8.5)
    assert list(harness.group.pending_join_members) == ["long", "short"]
    await asyncio.sleep(1)
    assert list(harness.group.pending_join_members) == ["long"]


async def test_a_member_that_only_takes_over_its_share_has_no_deadline_looked_at(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join_all(harness)
    lookups, before = Lookups(monkeypatch), consumer_of(harness.group).members["m0"].epoch
    at_ms = harness.now() + 1_000
    harness.submit(
        replace(joining(harness, "m0"), member_epoch=before, at_ms=at_ms, subscribed_topics=None, owned=None)
    )
    await run_ready()
    assert consumer_of(harness.group).members["m0"].epoch > before
    assert lookups.sizes == []


async def test_all_deadlines_are_looked_at_when_the_clock_was_set(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join_all(harness)
    lookups, now = Lookups(monkeypatch), harness.now
    monkeypatch.setattr(harness.coordinator._search, "_now", lambda: now() + 3_600_000)
    harness.submit(joining(harness, "late"))
    await run_ready()
    assert lookups.sizes[0] == COUNT + 1


async def test_heartbeats_of_replaced_static_members_have_no_deadline_looked_at(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(COUNT):
        harness.submit(harness.join_group(f"m{index}", instance_id=f"i{index}"))
    await asyncio.sleep(7)
    for index in range(COUNT):
        harness.submit(harness.sync_group(f"m{index}"))
    for index in range(COUNT):
        harness.submit(harness.join_group(f"replaced{index}", instance_id=f"i{index}"))
    await run_ready()
    for seconds in (1, 1, 0.1):
        lookups = Lookups(monkeypatch)
        for index in range(COUNT):
            assert harness.submit(harness.heartbeat(f"replaced{index}")).code is ErrorCode.NONE
            await run_ready()
        await asyncio.sleep(seconds)
    assert lookups.sizes == []


async def test_every_member_that_falls_silent_is_removed_in_its_time(harness: CoordinatorHarness) -> None:
    for index in range(3):
        harness.submit(joining(harness, f"m{index}"))
        await asyncio.sleep(1)
    await asyncio.sleep(SESSION_TIMEOUT_S - 3)
    for present in (["m1", "m2"], ["m2"], []):
        await asyncio.sleep(0.5)
        assert list(harness.group.member_ids) == present
        await asyncio.sleep(0.5)
