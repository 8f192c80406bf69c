"""Turns a manual clock: timers fire in their order, each when everything before it is durable and answered."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from regroup.storage.errors import StoreError
from regroup.storage.journal import Journal
from regroup.testing.clock.manual_clock import ManualClockLoop

MAX_TURNS_TO_SETTLE: Final = 100_000
"""The most turns of the loop for which an advance waits for the work that it has started."""
QUIET_TURNS: Final = 3
"""How many turns of the loop without work show that nothing is left: a write, its callbacks, and what these have
started."""


async def advance_to(loop: ManualClockLoop, target_ms: int, journal: Callable[[], Journal | None]) -> None:
    """Turn the clock to this time of the loop, in milliseconds. `journal` returns the journal of the brokers, None
    while there are none."""
    await settle(loop, journal)
    while (due_ms := loop.next_timer_ms()) is not None and due_ms <= target_ms:
        loop.advance_to(due_ms)
        await settle(loop, journal)
    loop.advance_to(target_ms)
    await settle(loop, journal)


async def settle(loop: ManualClockLoop, journal: Callable[[], Journal | None]) -> None:
    """Wait until nothing is left to do at this time: no event is to be stored, and no callback is due."""
    quiet_turns = 0
    for _ in range(MAX_TURNS_TO_SETTLE):
        await asyncio.sleep(0)
        writing = journal()
        if writing and writing.failure is None and writing.durable_position < writing.last_position:
            with suppress(StoreError):
                await writing.wait_until_durable(writing.last_position)
            quiet_turns = 0
        else:
            quiet_turns = quiet_turns + 1 if loop.is_idle else 0
        if quiet_turns == QUIET_TURNS:
            return
