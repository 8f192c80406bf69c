"""Virtual time: an event loop without threads, sockets and waiting, whose clock jumps to the next timer.

loop = VirtualLoop()
loop.run_until_complete(asyncio.sleep(45))     # returns at once
"""

import asyncio
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, Never, TypeVarTuple

START_MS: Final = 1_700_000_000_000
"""Start of every run in epoch milliseconds: a Tuesday in November 2023."""

MAX_TURNS_PER_INSTANT: Final = 100_000
"""Turns of the loop at one point in time before it gives up. A rebalance of hundreds of members takes some dozens."""

_Arguments = TypeVarTuple("_Arguments")


class LoopDeadlock(RuntimeError):
    """No timer is set and nothing is ready, so the run would wait for ever."""


class LoopLivelock(RuntimeError):
    """Something is due again as soon as it is done, so time would never advance."""


class TooManyCallbacks(RuntimeError):
    """The loop has called as many callbacks as it may."""


class VirtualLoop(base_events.BaseEventLoop):
    """An event loop that begins at 0 s. Code that waits must use its timers, not a thread or a socket.

    Timers of the same time fire in the order in which they were set. It builds on what asyncio's loops for different
    systems have in common: `_ready`, and `_run_once` for one turn.
    """

    _ready: deque[asyncio.Handle]

    def __init__(self, max_callbacks: int | None = None) -> None:
        """With `max_callbacks`, TooManyCallbacks ends a run in which more are called in all."""
        super().__init__()
        self._callbacks_left = max_callbacks
        self._now_s = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_numbers = count()
        self._turns = 0
        """Turns since time has advanced."""

    def time(self) -> float:
        return self._now_s

    def call_at(
        self, when: float, callback: Callable[[*_Arguments], object], *args: *_Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._timer_numbers), timer))
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
        raise RuntimeError("a thread would race the virtual clock; run it inline")

    def _run_once(self) -> None:
        """Run what is ready; if nothing is, advance the clock to the next timer first."""
        ready = self._ready
        if not ready:
            self._fire_timers()
        self._turns += 1
        if self._turns > MAX_TURNS_PER_INSTANT:
            self._turns = 0
            raise LoopLivelock(f"at {self._now_s} s of the run, after {MAX_TURNS_PER_INSTANT:,} turns of its loop")
        if self._callbacks_left is not None:
            self._count_down(len(ready))
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _count_down(self, callbacks: int) -> None:
        assert self._callbacks_left is not None
        self._callbacks_left -= callbacks
        if self._callbacks_left < 0:
            self._callbacks_left = None  # the tasks that are cancelled next need a few
            raise TooManyCallbacks(f"at {self._now_s:.3f} s of the run")

    def _fire_timers(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
        if not timers:
            raise LoopDeadlock("every task waits, and no timer is set")
        if timers[0][0] > self._now_s:
            self._now_s, self._turns = timers[0][0], 0
        while timers and timers[0][0] <= self._now_s:
            self._ready.append(heappop(timers)[2])

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave a cancelled timer where it is; it is dropped when its time comes."""

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there are no files to wait for."""

    def _write_to_self(self) -> None:
        """Do nothing: no other thread has to wake this one."""


def run_in_virtual_time(main: Coroutine[Any, Any, None], loop: VirtualLoop) -> None:
    """Run a coroutine to its end, then cancel all remaining tasks and close the loop."""
    try:
        loop.run_until_complete(main)
    finally:
        for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class HostClock:
    """A host's monotonic clock in seconds. It runs with the loop, and can be made to jump.

    A jump moves the time that the host reads, not its timers: a coordinator that reads its clock after a jump of a
    minute finds that every member has been silent for a minute.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._offset_s = 0.0

    def __call__(self) -> float:
        return self._loop.time() + self._offset_s

    def jump(self, milliseconds: float) -> None:
        """Move the clock forwards."""
        self._offset_s += milliseconds / 1000
