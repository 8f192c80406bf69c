"""The time, as a number that somebody hands over."""

from collections.abc import Callable


class Clock:
    """Epoch milliseconds: those at the start plus what a monotonic clock says has passed since.

    So nothing here goes backwards when somebody sets the machine's clock, nor behind what is already written down.
    """

    def __init__(self, *, started_at_ms: int, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._zero_ms = started_at_ms - monotonic_s() * 1000

    def __call__(self) -> int:
        """Now."""
        return int(self._zero_ms + self._monotonic_s() * 1000)

    def not_before(self, at_ms: int) -> None:
        """Go on from this moment if it lies ahead: history is written in order of time."""
        self._zero_ms += max(0, at_ms - self())
