"""GroupTimers: one timer for each group, set to its earliest deadline."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from regroup.coordinator.commands import Deadline, DeadlineKind
from regroup.coordinator.runtime.timers import TICK_MS, GroupTimers
from tests.virtual_time import virtual_now

GROUP = "payments"


class TimersHarness:
    """Timers of groups whose deadlines are set by hand, in milliseconds since the start."""

    def __init__(self, tick_ms: int = TICK_MS) -> None:
        self.now = virtual_now()
        self.start_ms = self.now()
        self.deadlines_ms: dict[str, int] = {}
        self.lookups = 0
        self.passed: list[tuple[str, int]] = []
        """Groups whose deadline has passed, each with the time when the timers said so."""
        self.timers = GroupTimers(self._next_deadline, self._on_deadline, self.now, tick_ms)

    def _next_deadline(self, group_id: str) -> Deadline | None:
        self.lookups += 1
        if group_id not in self.deadlines_ms:
            return None
        return Deadline(self.start_ms + self.deadlines_ms[group_id], DeadlineKind.SESSION)

    def _on_deadline(self, group_id: str, deadline: Deadline) -> None:
        del self.deadlines_ms[group_id]
        self.passed.append((group_id, self.now() - self.start_ms))

    async def set_deadline(self, at_ms: int, group_id: str = GROUP) -> None:
        """Give the group this deadline, and let the timers take it."""
        self.deadlines_ms[group_id] = at_ms
        self.timers.reschedule(group_id)
        await asyncio.sleep(0)


@pytest.fixture
async def timers_set_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times to which timers of groups are set, in seconds of the loop."""
    loop, set_at_s = asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def count_call(when: float, callback: Callable[..., object], *args: Any, **options: Any) -> asyncio.TimerHandle:
        if isinstance(getattr(callback, "__self__", None), GroupTimers):
            set_at_s.append(when)
        return call_at(when, callback, *args, **options)

    monkeypatch.setattr(loop, "call_at", count_call)
    return set_at_s


async def test_a_deadline_passes_at_its_time_once() -> None:
    harness = TimersHarness()
    await harness.set_deadline(1_000)
    await harness.set_deadline(2_000, "another")
    await asyncio.sleep(10)
    assert harness.passed == [(GROUP, 1_000), ("another", 2_000)]


async def test_a_deadline_that_has_passed_already_is_handled_in_the_next_tick() -> None:
    harness = TimersHarness()
    await harness.set_deadline(0)
    assert harness.passed == []
    await asyncio.sleep(0.01)
    assert harness.passed == [(GROUP, 1)]


async def test_an_earlier_deadline_replaces_the_timer() -> None:
    harness = TimersHarness()
    await harness.set_deadline(10_000)
    await harness.set_deadline(1_000)
    await asyncio.sleep(2)
    assert harness.passed == [(GROUP, 1_000)]


async def test_a_replaced_timer_is_cancelled() -> None:
    harness = TimersHarness()
    await harness.set_deadline(10_000)
    await harness.set_deadline(1_000)
    harness.timers.stop()
    await asyncio.sleep(20)
    assert harness.passed == []


async def test_a_later_deadline_keeps_the_timer_which_is_then_set_again() -> None:
    harness = TimersHarness()
    await harness.set_deadline(1_000)
    harness.deadlines_ms[GROUP] = 5_000  # as after a heartbeat, without a call
    await asyncio.sleep(2)
    assert harness.passed == []
    await asyncio.sleep(4)
    assert harness.passed == [(GROUP, 5_000)]


async def test_a_later_deadline_sets_no_new_timer(timers_set_s: list[float]) -> None:
    harness = TimersHarness()
    await harness.set_deadline(1_000)
    for deadline_ms in (1_000, 2_000, 3_000):
        await harness.set_deadline(deadline_ms)
    assert len(timers_set_s) == 1


async def test_a_deadline_that_is_one_tick_earlier_sets_no_new_timer(timers_set_s: list[float]) -> None:
    harness = TimersHarness()
    await harness.set_deadline(10_000)
    await harness.set_deadline(10_000 - TICK_MS)
    assert len(timers_set_s) == 1
    await harness.set_deadline(10_000 - TICK_MS - 1)
    assert len(timers_set_s) == 2


async def test_a_deadline_that_is_a_millisecond_earlier_passes_in_its_time_without_ticks() -> None:
    harness = TimersHarness(tick_ms=0)
    await harness.set_deadline(10_000)
    await harness.set_deadline(9_999)
    await asyncio.sleep(20)
    assert harness.passed == [(GROUP, 9_999)]


async def test_the_same_deadline_sets_no_new_timer_later_without_ticks(timers_set_s: list[float]) -> None:
    harness = TimersHarness(tick_ms=0)
    for _ in range(100):
        await harness.set_deadline(10_000)
        await asyncio.sleep(0.001)
    assert len(timers_set_s) == 1


async def test_the_next_deadline_of_a_group_is_set_after_one_has_passed() -> None:
    harness = TimersHarness()
    on_deadline = harness.timers._on_deadline

    def pass_and_set_another(group_id: str, deadline: Deadline) -> None:
        on_deadline(group_id, deadline)
        if len(harness.passed) == 1:
            harness.deadlines_ms[group_id] = 3_000

    harness.timers._on_deadline = pass_and_set_another
    await harness.set_deadline(1_000)
    await asyncio.sleep(10)
    assert harness.passed == [(GROUP, 1_000), (GROUP, 3_000)]


async def test_many_changes_in_one_loop_step_look_up_the_deadline_once() -> None:
    harness = TimersHarness()
    harness.deadlines_ms[GROUP] = 1_000
    for _ in range(100):
        harness.timers.reschedule(GROUP)
    assert harness.lookups == 0
    await asyncio.sleep(0)
    assert harness.lookups == 1


async def test_after_a_stop_no_deadline_passes() -> None:
    harness = TimersHarness()
    await harness.set_deadline(1_000)
    harness.deadlines_ms["another"] = 1_000
    harness.timers.reschedule("another")
    harness.timers.stop()
    await asyncio.sleep(10)
    assert harness.passed == []


def test_uvloop_sets_a_timer_again_that_is_due_at_once() -> None:
    passed: list[str] = []
    errors: list[dict[str, Any]] = []

    async def pass_three_deadlines() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        timers = GroupTimers(next_deadline, lambda group, deadline: change(timers, group), lambda: 0, tick_ms=0)
        timers.reschedule(GROUP)
        for _ in range(20):
            await asyncio.sleep(0)

    def next_deadline(group: str) -> Deadline | None:
        return Deadline(0, DeadlineKind.SESSION) if len(passed) < 3 else None

    def change(timers: GroupTimers, group: str) -> None:
        passed.append(group)
        timers.reschedule(group)

    uvloop.run(pass_three_deadlines())
    assert passed == [GROUP] * 3
    assert errors == []
