"""An event loop and a clock that are turned by hand: sockets and threads work as usual, and timers wait until the clock
is advanced.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from regroup.server.clock import Clock


class _LoopParts(Protocol):
    """The attributes of asyncio's event loops that are used here and are not part of their public interface."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]


class ManualClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still between two calls of `advance_to`.

    loop = ManualClockLoop()
    loop.advance_to(45_000)          # timers that are due at 45 s are ready now
    """

    def __init__(self) -> None:
        self._manual_ms = 0
        self._released_at_s: float | None = None
        super().__init__()
        # Timers due within this time fire. With asyncio's nanosecond, none would after 2^24 s: the sum is rounded back.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """The time of the loop in seconds: how far its clock was turned since the loop was made."""
        return self.manual_ms / 1000

    @property
    def manual_ms(self) -> int:
        """The time of the loop in milliseconds."""
        if self._released_at_s is None:
            return self._manual_ms
        return self._manual_ms + int((super().time() - self._released_at_s) * 1000)

    def release(self) -> None:
        """Let the clock run in real time from now on, so that closing an emulator does not wait for timers forever."""
        self._released_at_s = super().time()

    def advance_to(self, at_ms: int) -> None:
        """Turn the clock forwards to this time, in milliseconds. Timers that are due by then fire in the next turn of
        the loop."""
        self._manual_ms = max(self._manual_ms, at_ms)

    def next_timer_ms(self) -> int | None:
        """When the next timer is due, in milliseconds of the loop's time, rounded up; None if there is no timer."""
        timers = cast(_LoopParts, self)._scheduled
        due_s = min((timer.when() for timer in timers if not timer.cancelled()), default=None)
        return None if due_s is None else -int(-(due_s * 1000 - 1e-6) // 1)

    @property
    def is_idle(self) -> bool:
        """Whether the loop has no callback to run besides the one that asks."""
        return not cast(_LoopParts, self)._ready


class ManualClock(Clock):
    """A clock of brokers that follows a ManualClockLoop: its epoch milliseconds have no rounding errors of seconds."""

    def __init__(self, loop: ManualClockLoop) -> None:
        super().__init__(monotonic_s=loop.time)
        self._loop = loop
        self._started_at_ms = int(self._zero_ms)

    def __call__(self) -> int:
        return self._started_at_ms + self._loop.manual_ms

    def advance_to(self, at_ms: int) -> None:
        self._started_at_ms += max(0, at_ms - self())


def call_after_real_time(delay_s: float, callback: Callable[[], object]) -> Callable[[], object]:
    """Call `callback` in the running loop after a time that is measured in real time, even if the loop's own clock
    stands still.

    Returns a function that cancels the call.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, ManualClockLoop):
        return loop.call_later(delay_s, callback).cancel

    def call() -> None:
        with suppress(RuntimeError):  # the loop may have been closed
            loop.call_soon_threadsafe(callback)

    timer = threading.Timer(delay_s, call)
    timer.daemon = True
    timer.start()
    return timer.cancel
