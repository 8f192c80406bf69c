"""Virtual time: an event loop without threads, sockets and waiting, whose clock jumps to the next timer.

loop = VirtualLoop()
loop.run_until_complete(asyncio.sleep(45))     # returns at once
"""

import asyncio
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heapify, heappop, heappush
from typing import Any, Final, Never, TypeVarTuple

START_MS: Final = 1_700_000_000_000
"""Start of every run in epoch milliseconds: a Tuesday in November 2023."""

MAX_TURNS_PER_INSTANT: Final = 100_000
"""How many turns the loop may make at one point in time before LoopLivelock.

A rebalance of hundreds of members takes dozens.
"""

TIMERS_PER_SWEEP: Final = 1_024
"""After so many new timers the cancelled ones are dropped: of the timeouts of requests hardly any is ever due."""

_Arguments = TypeVarTuple("_Arguments")


class LoopDeadlock(RuntimeError):
    """Raised when no timer is set and no callback is ready, so the run would wait for ever."""


class LoopLivelock(RuntimeError):
    """Raised when callbacks schedule further ones for the same moment without end, so time would never advance."""


class TooManyCallbacks(RuntimeError):
    """Raised when the loop has called more callbacks than it may."""


class VirtualHandle(asyncio.TimerHandle):
    """A callback of the virtual loop, to be called at a time or as soon as possible.

    asyncio copies the context variables for each callback. No simulated code uses them, so a callback runs without a
    context of its own unless one is given, as a task does.
    """

    __slots__ = ("_call", "_call_args", "_call_context", "_is_cancelled", "_when_s")

    def __init__(
        self,
        when_s: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        self._when_s = when_s
        self._call: Callable[..., object] | None = callback
        self._call_args = args
        self._call_context = context
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True
        self._call, self._call_args = None, ()

    def cancelled(self) -> bool:
        return self._is_cancelled

    def when(self) -> float:
        return self._when_s

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __repr__(self) -> str:
        return f"<VirtualHandle at {self._when_s} s of {self._call!r}>"


class VirtualLoop(base_events.BaseEventLoop):
    """An event loop that begins at 0 s. Code that waits must use its timers, not a thread or a socket.

    Timers of the same time fire in the order in which they were set; a cancelled one is dropped later. The class builds
    on what asyncio's loops for different systems have in common: `_ready`, and `_run_once`.
    """

    _ready: deque[VirtualHandle]
    _stopping: bool

    def __init__(self, max_callbacks: int | None = None) -> None:
        """Make a loop at 0 s. With `max_callbacks`, TooManyCallbacks ends a run that calls more in all."""
        super().__init__()
        self._callbacks_left = max_callbacks
        self._now_s = 0.0
        self._timers: list[tuple[float, int, VirtualHandle]] = []
        self._timer_count = 0
        """The number of timers set so far: of two with the same time the earlier one fires first."""
        self._turns = 0
        """Turns of the loop since the virtual time last advanced."""

    def time(self) -> float:
        return self._now_s

    def call_soon(
        self, callback: Callable[[*_Arguments], object], *args: *_Arguments, context: Context | None = None
    ) -> VirtualHandle:
        handle = VirtualHandle(self._now_s, callback, args, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*_Arguments], object], *args: *_Arguments, context: Context | None = None
    ) -> VirtualHandle:
        timer = VirtualHandle(when, callback, args, context)
        self._timer_count = number = self._timer_count + 1
        heappush(self._timers, (when, number, timer))
        if number % TIMERS_PER_SWEEP == 0:
            self._timers[:] = [each for each in self._timers if not each[2]._is_cancelled]
            heapify(self._timers)
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> VirtualHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_soon_threadsafe(self, *_: object, **__: object) -> Never:
        raise RuntimeError("a thread would race the virtual clock; run it inline")

    def _run_once(self) -> None:
        """Run what is ready; if nothing is, advance the clock to the next timer first. It goes on until the loop is to
        stop: run_forever, which calls it once for each turn elsewhere, then looks whether it is."""
        ready = self._ready
        while True:
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
                call = handle._call
                if call is None:
                    continue
                try:
                    if handle._call_context is None:
                        call(*handle._call_args)
                    else:
                        handle._call_context.run(call, *handle._call_args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001  # reported by the handler
                    message = f"Exception in callback {call!r}"
                    self.call_exception_handler({"message": message, "exception": error, "handle": handle})
            if self._stopping:
                return

    def lift_bound(self) -> None:
        """Let the loop call as many callbacks as it needs from now on."""
        self._callbacks_left = None

    def _count_down(self, callbacks: int) -> None:
        assert self._callbacks_left is not None
        self._callbacks_left -= callbacks
        if self._callbacks_left < 0:
            self._callbacks_left = None  # the tasks that are cancelled next need a few
            raise TooManyCallbacks(f"at {self._now_s:.3f} s of the run")

    def _fire_timers(self) -> None:
        timers, ready = self._timers, self._ready
        while timers and timers[0][2]._is_cancelled:
            heappop(timers)
        if not timers:
            raise LoopDeadlock("every task waits, and no timer is set")
        if timers[0][0] > self._now_s:
            self._now_s, self._turns = timers[0][0], 0
        now_s = self._now_s
        while timers and timers[0][0] <= now_s:
            ready.append(heappop(timers)[2])

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there are no files to wait for."""

    def _write_to_self(self) -> None:
        """Do nothing: no other thread has to wake this one."""


def run_in_virtual_time(
    main: Coroutine[Any, Any, None],
    loop: VirtualLoop,
    abort: Callable[[LoopLivelock | TooManyCallbacks], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Run a coroutine to its end, then cancel all remaining tasks and close the loop.

    If the coroutine does not come to its end, by LoopLivelock or TooManyCallbacks, `abort` runs in its place; without
    `abort` the exception is raised.
    """
    try:
        loop.run_until_complete(main)
    except (LoopLivelock, TooManyCallbacks) as error:
        if abort is None:
            raise
        loop.run_until_complete(abort(error))
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
