"""A member's clock: what is due rings, and while the member sleeps it is kept back until it wakes."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial


class Alarms:
    """Milliseconds of the event loop's clock. Nothing is used of the loop but `call_at`, so that it may be virtual.

    `is_over` says that nothing rings any more.
    """

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self._is_over = is_over
        self._is_asleep = False
        self._missed: deque[Callable[[], None]] = deque()
        self._deadline: asyncio.TimerHandle | None = None
        self._set: dict[asyncio.TimerHandle, None] = {}

    def now_ms(self) -> int:
        """Rounded up a little: a loop that wakes exactly at the deadline must find that it has passed."""
        return int(asyncio.get_running_loop().time() * 1000 + 0.01)

    def after(self, milliseconds: float, act: Callable[[], None]) -> None:
        """Once, so long from now."""
        self._ring(milliseconds, partial(self.when_awake, act))

    def _ring(self, milliseconds: float, act: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()

        def ring() -> None:
            self._set.pop(timer, None)
            act()

        timer = loop.call_at(loop.time() + milliseconds / 1000, ring)
        self._set[timer] = None

    def set_deadline(self, deadline_ms: int | None, act: Callable[[], None]) -> None:
        """There is one deadline at a time, or none."""
        if self._deadline is not None:
            self._deadline.cancel()
        if deadline_ms is not None and not self._is_over():
            self._deadline = asyncio.get_running_loop().call_at(deadline_ms / 1000, self.when_awake, act)

    def when_awake(self, act: Callable[[], None]) -> None:
        """At once, or when the member wakes."""
        if self._is_asleep:
            self._missed.append(act)
        elif not self._is_over():
            act()

    def sleep(self, milliseconds: float, then: Callable[[], None]) -> None:
        """Keep everything back; `then` comes at the end of the time, and has to wake the member or begin anew."""
        self._is_asleep = True
        self._ring(milliseconds, then)

    def catch_up(self) -> None:
        """Wake, and do what was kept back."""
        self._is_asleep = False
        while self._missed and not self._is_asleep and not self._is_over():
            self._missed.popleft()()

    def begin_anew(self) -> None:
        """Wake as somebody who knows nothing of what was kept back."""
        self._is_asleep = False
        self._missed.clear()

    @property
    def is_asleep(self) -> bool:
        return self._is_asleep

    def cancel(self) -> None:
        """Nothing rings any more."""
        for timer in (*self._set, *([self._deadline] if self._deadline else [])):
            timer.cancel()
        self._set.clear()
