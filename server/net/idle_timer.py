"""Closes a connection that has been idle for too long."""

import asyncio
from collections.abc import Callable


class IdleTimer:
    """Calls `on_idle` once there has been no activity for `max_idle_s` seconds.

    While `is_waited_for` returns True the connection is not idle: its client waits for a response.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        max_idle_s: float,
        is_waited_for: Callable[[], bool],
        on_idle: Callable[[], None],
    ) -> None:
        self._loop, self._max_idle_s = loop, max_idle_s
        self._is_waited_for, self._on_idle = is_waited_for, on_idle
        self._last_activity_s = loop.time()
        self._timer = loop.call_at(self._last_activity_s + max_idle_s, self._check)

    def note_activity(self) -> None:
        """Note that the connection is active now: `max_idle_s` seconds are counted from now on. The method only stores
        the time and does not move a timer, so it costs little."""
        self._last_activity_s = self._loop.time()

    def cancel(self) -> None:
        """Stop the timer because the connection has ended; `on_idle` is not called any more."""
        self._timer.cancel()

    def _check(self) -> None:
        # The time when it is due is compared, not the time that is left: that may be less than a clock can tell.
        now_s = self._loop.time()
        due_s = (now_s if self._is_waited_for() else self._last_activity_s) + self._max_idle_s
        if now_s < due_s:
            self._timer = self._loop.call_at(due_s, self._check)
        else:
            self._on_idle()
