"""A connection is idle once nothing has happened for the whole time, whatever the clock rounds."""

import asyncio

import pytest

from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.server.net.idle_timer import IdleTimer


def idle_after_s(max_idle_s: float, *active_at_s: float, waited_for_until_s: float = 0.0) -> float:
    """When a connection with activity at these times is found idle."""
    found: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        is_idle = asyncio.Event()
        timer = IdleTimer(loop, max_idle_s, lambda: loop.time() < waited_for_until_s, is_idle.set)
        for at_s in active_at_s:
            loop.call_at(at_s, timer.note_activity)
        await is_idle.wait()
        found.append(loop.time())
        timer.cancel()

    run_in_virtual_time(main(), VirtualLoop())
    return found[0]


def test_activity_puts_the_end_off() -> None:
    assert idle_after_s(10.0) == 10.0
    assert idle_after_s(10.0, 4.0, 7.5) == 17.5


@pytest.mark.parametrize("at_s", [598.0806646222072, 0.1 + 0.2, 1 / 3, 1e-9, 123.456789012345])
def test_a_time_that_the_clock_rounds_ends_all_the_same(at_s: float) -> None:
    assert idle_after_s(600.0, at_s) == at_s + 600.0


def test_a_connection_whose_client_waits_is_not_idle() -> None:
    assert idle_after_s(10.0, waited_for_until_s=25.0) == 30.0
