"""The coordinator's clock and that of the event loop, when they go apart: which deadlines are then looked at again."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.protocol.errors import ErrorCode
from tests.coordinator.coordinator_harness import SETTINGS, CoordinatorHarness, GatedStore, run_ready


class JumpingClockHarness(CoordinatorHarness):
    """A coordinator whose clock is `ahead_ms` before that of the event loop."""

    def __init__(self) -> None:
        super().__init__(GatedStore())
        self.ahead_ms, now = 0, self.now
        self.now = lambda: now() + self.ahead_ms
        self.coordinator = GroupCoordinator(self.journal, settings=SETTINGS, now=self.now)


@pytest.fixture
async def jumping() -> AsyncIterator[JumpingClockHarness]:
    harness = JumpingClockHarness()
    await harness.coordinator.start()
    yield harness
    harness.coordinator.stop()
    await harness.journal.close()


async def test_a_clock_that_jumps_ahead_does_not_delay_later_deadlines(jumping: JumpingClockHarness) -> None:
    jumping.submit(jumping.join_group("ben", supports_member_id_required=True))
    await run_ready()
    jumping.ahead_ms = 9_000
    join = jumping.submit(jumping.join_group("anna"))
    await asyncio.sleep(3.1)
    assert jumping.group.pending_join_members == {}
    await asyncio.sleep(3.1)
    assert join.response.generation_id == 1


async def test_after_a_clock_has_jumped_ahead_a_heartbeat_ends_no_session_of_another_member(
    jumping: JumpingClockHarness,
) -> None:
    """The timer was set by the loop's clock. To look at all deadlines again would end the session at once, and a
    heartbeat of a static member that was replaced long ago needs none of that."""
    jumping.submit(jumping.join_group("anna", instance_id="i-1"))
    jumping.submit(jumping.join_group("ben"))
    await asyncio.sleep(7)
    for member_id in ("anna", "ben"):
        jumping.submit(jumping.sync_group(member_id))
    await run_ready()
    replaced = jumping.submit(jumping.join_group("anna2", instance_id="i-1"))
    await asyncio.sleep(1)
    assert replaced.code is ErrorCode.NONE
    for member_id in ("anna2", "ben", "anna2"):
        jumping.submit(jumping.heartbeat(member_id))
    await asyncio.sleep(2)
    jumping.ahead_ms = 60_000
    for _ in range(5):
        jumping.submit(jumping.heartbeat("anna2"))
        await asyncio.sleep(1)
        assert list(jumping.group.members) == ["ben", "anna2"]
