"""The timers of one member. They wait while the member is paused, and are due when it resumes."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial


class MemberTimers:
    """The timers of one member, in milliseconds of the event loop's clock.

    Of the loop only `call_at` is used, so its clock may be virtual. Once `is_stopped()` is true, no callback is called
    any more.
    """

    def __init__(self, is_stopped: Callable[[], bool]) -> None:
        self._is_stopped = is_stopped
        self.is_paused = False
        self._backlog: deque[Callable[[], None]] = deque()
        self._deadline: asyncio.TimerHandle | None = None
        self._timers: dict[asyncio.TimerHandle, None] = {}

    def now_ms(self) -> int:
        """The loop's time in milliseconds, rounded up a little.

        A loop that wakes exactly at a deadline must find that the deadline has passed.
        """
        return int(asyncio.get_running_loop().time() * 1000 + 0.01)

    def call_after(self, delay_ms: float, callback: Callable[[], None]) -> None:
        """Call a function once after a delay; while the member is paused, the call waits until it resumes."""
        self._set_timer(delay_ms, partial(self.run_when_resumed, callback))

    def _set_timer(self, delay_ms: float, callback: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()

        def run() -> None:
            self._timers.pop(timer, None)
            callback()

        timer = loop.call_at(loop.time() + delay_ms / 1000, run)
        self._timers[timer] = None

    def set_deadline(self, deadline_ms: int | None, callback: Callable[[], None]) -> None:
        """Call a function at a deadline. It replaces the deadline that was set before; None removes it."""
        if self._deadline is not None:
            self._deadline.cancel()
        if deadline_ms is not None and not self._is_stopped():
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_at(deadline_ms / 1000, self.run_when_resumed, callback)

    def run_when_resumed(self, callback: Callable[[], None]) -> None:
        """Call a function at once or, if the member is paused, when it resumes."""
        if self.is_paused:
            self._backlog.append(callback)
        elif not self._is_stopped():
            callback()

    def pause(self, duration_ms: float, then: Callable[[], None]) -> None:
        """Pause the member: no callback is called.

        After the duration `then` is called, which has to resume the member.
        """
        self.is_paused = True
        self._set_timer(duration_ms, then)

    def resume(self) -> None:
        """Resume the member, and call the functions that had to wait."""
        self.is_paused = False
        while self._backlog and not self.is_paused and not self._is_stopped():
            self._backlog.popleft()()

    def resume_without_backlog(self) -> None:
        """Resume the member, and drop the calls that had to wait."""
        self.is_paused = False
        self._backlog.clear()

    def cancel_all(self) -> None:
        """Cancel all timers."""
        for timer in (*self._timers, *([self._deadline] if self._deadline else [])):
            timer.cancel()
        self._timers.clear()
