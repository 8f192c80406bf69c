"""The virtual clock: time that takes none, and loops that cannot go on."""

import asyncio

import pytest

from regroup.lab.simulation import virtual_clock
from regroup.lab.simulation.virtual_clock import (
    LoopDeadlock,
    LoopLivelock,
    TooManyCallbacks,
    VirtualLoop,
    run_in_virtual_time,
)


def test_a_deadlocked_loop_raises() -> None:
    loop = VirtualLoop()
    with pytest.raises(LoopDeadlock):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_a_livelocked_loop_raises_and_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_clock, "MAX_TURNS_PER_INSTANT", 2_000)
    loop = VirtualLoop()

    def again() -> None:
        loop.call_at(loop.time(), again)

    async def hour() -> None:
        await asyncio.sleep(1)
        again()
        await asyncio.sleep(3_600)

    with pytest.raises(LoopLivelock, match=r"at 1\.0 s of the run"):
        run_in_virtual_time(hour(), loop)
    assert loop.is_closed()


def test_an_hour_takes_no_time_and_simultaneous_timers_fire_in_order() -> None:
    loop = VirtualLoop()
    fired: list[int] = []
    for number in range(50):
        loop.call_at(3600, fired.append, number)
    loop.call_at(1800, fired.append, -1).cancel()
    loop.run_until_complete(asyncio.sleep(3601))
    assert (fired, loop.time()) == (list(range(50)), 3601)
    loop.close()


def test_a_thread_cannot_schedule_callbacks() -> None:
    loop = VirtualLoop()
    with pytest.raises(RuntimeError, match="inline"):
        loop.call_soon_threadsafe(print)
    loop.close()


def test_a_loop_with_a_limit_ends_a_run_that_calls_too_much() -> None:
    async def tick() -> None:
        for _ in range(1_000):
            await asyncio.sleep(1)

    with pytest.raises(TooManyCallbacks, match=r"at \d+\.000 s of the run"):
        run_in_virtual_time(tick(), VirtualLoop(max_callbacks=100))
