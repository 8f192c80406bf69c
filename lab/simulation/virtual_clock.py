"""Time that passes only when nobody has anything to do: an event loop without threads, sockets and waiting.

loop = VirtualLoop()
loop.run_until_complete(forty_five_seconds())     # at once
"""

import asyncio
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, Never, TypeVarTuple

BEGIN_MS: Final = 1_700_000_000_000
"""When every run begins, in epoch milliseconds: a Tuesday in November 2023."""

MOST_TURNS: Final = 100_000
"""Of the loop, in one moment. A group of hundreds that rebalances takes some dozens."""

_Arguments = TypeVarTuple("_Arguments")


class EverybodyWaits(RuntimeError):
    """No timer is set and nothing is ready: the run would stand still for ever."""


class TimeStandsStill(RuntimeError):
    """Something is due again as soon as it is done: the run would stay in one moment for ever."""


class VirtualLoop(base_events.BaseEventLoop):
    """Begins at 0 s. Whatever waits must do so by this loop's timers, never in a thread or on a socket.

    Timers of the same moment ring in the order in which they were set. It stands on what asyncio's own loops for
    different systems have in common: `_ready`, and `_run_once` for one turn.
    """

    _ready: deque[asyncio.Handle]

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._set = count()
        self._turns = 0
        """Since time has passed."""

    def time(self) -> float:
        return self._now_s

    def call_at(
        self, when: float, callback: Callable[[*_Arguments], object], *args: *_Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._set), timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_soon_threadsafe(self, *_: object, **__: object) -> Never:
        raise RuntimeError("A thread may not race the virtual clock: do it inline.")

    def _run_once(self) -> None:
        """Do what can be done now; if that is nothing, the clock jumps to the next timer."""
        ready = self._ready
        if not ready:
            self._ring()
        self._turns += 1
        if self._turns > MOST_TURNS:
            self._turns = 0
            raise TimeStandsStill(f"at {self._now_s} s of the run, after {MOST_TURNS:,} turns of its loop")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _ring(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
        if not timers:
            raise EverybodyWaits("Everybody waits, and no timer is set.")
        if timers[0][0] > self._now_s:
            self._now_s, self._turns = timers[0][0], 0
        while timers and timers[0][0] <= self._now_s:
            self._ready.append(heappop(timers)[2])

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays where it is until its time has come."""

    def _process_events(self, event_list: object) -> None:
        """There are no files to wait for."""

    def _write_to_self(self) -> None:
        """There is no other thread that would have to wake this one."""


def run_virtually(main: Coroutine[Any, Any, None], loop: VirtualLoop) -> None:
    """Run to its end, and leave nothing behind."""
    try:
        loop.run_until_complete(main)
    finally:
        for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class HostClock:
    """A host's monotonic clock. It runs with the loop, and can be made to jump.

    A jump moves what the host believes, not its timers: a coordinator that looks at its clock after a jump of a
    minute finds that everybody was silent for a minute.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ahead_s = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self._loop.time() + self._ahead_s

    def jump(self, milliseconds: float) -> None:
        """Let the host believe that so much time has passed."""
        self._ahead_s += milliseconds / 1000
