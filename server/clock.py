"""The clock of a broker cluster: epoch milliseconds that never go backwards."""

import time
from collections.abc import Callable

__all__ = ["Clock"]


class Clock:
    """A clock in epoch milliseconds that never goes backwards: a start time, plus what a monotonic clock has counted
    since.

    Without arguments it is the machine's clock; a change of the machine's time does not affect it.
    """

    def __init__(self, *, started_at_ms: int | None = None, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        if started_at_ms is None:
            started_at_ms = time.time_ns() // 1_000_000
        self._zero_ms = started_at_ms - monotonic_s() * 1000

    def __call__(self) -> int:
        """The current time in epoch milliseconds."""
        return int(self._zero_ms + self._monotonic_s() * 1000)

    def advance_to(self, at_ms: int) -> None:
        """Set the clock to `at_ms` (epoch milliseconds) if that is later than its present time; from there it
        continues. So new records are not older than stored ones."""
        self._zero_ms += max(0, at_ms - self())
