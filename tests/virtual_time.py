"""An event loop whose time jumps: nobody sleeps, and an hour is over at once."""

import asyncio
import selectors
from collections.abc import Callable


class JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for the next timer it moves the clock there."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("Everybody waits, and no timer is set: this test would never end.")
        if not ready and timeout:
            self.passed_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 0. Everything that waits must do so by this loop's timers, not in a thread."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed_s


def virtual_now(begin_ms: int = 1_700_000_000_000) -> Callable[[], int]:
    """Epoch milliseconds by the running loop's clock."""
    loop = asyncio.get_running_loop()
    return lambda: begin_ms + round(loop.time() * 1000)
