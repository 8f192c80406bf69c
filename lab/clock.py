"""Time that passes only when nobody has anything to do: an event loop without threads, sockets and waiting.

loop = VirtualLoop()
loop.run_until_complete(forty_five_seconds())     # at once
"""

import asyncio
from asyncio import base_events
from collections.abc import Coroutine
from typing import Any, Final, Never

BEGIN_MS: Final = 1_700_000_000_000
"""When every run begins, in epoch milliseconds: a Tuesday in November 2023."""


class EverybodyWaits(RuntimeError):
    """No timer is set and nothing is ready: the run would stand still for ever."""


class _NoFiles:
    """What an event loop asks for the files that are ready. None ever is: instead the clock jumps to the next timer."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> tuple[()]:
        if timeout is None:
            raise EverybodyWaits("Everybody waits, and no timer is set.")
        if timeout > 0:
            self._loop.jump(timeout)
        return ()

    def close(self) -> None:
        pass


class VirtualLoop(base_events.BaseEventLoop):
    """Begins at 0 s. Whatever waits must do so by this loop's timers, never in a thread or on a socket.

    It stands on the three methods that asyncio's loops for different systems have to bring along.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._selector = _NoFiles(self)

    def time(self) -> float:
        return self._now_s

    def jump(self, seconds: float) -> None:
        """Let time pass."""
        self._now_s += seconds

    def _process_events(self, event_list: tuple[()]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody waits who would have to be woken."""

    def call_soon_threadsafe(self, *_: object, **__: object) -> Never:
        raise RuntimeError("A thread may not race the virtual clock: do it inline.")


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
        self._ahead_s += milliseconds / 1000
