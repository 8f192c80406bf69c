"""One timer a group, set for its earliest deadline and looked at again whenever the group has changed."""

import asyncio
from collections.abc import Callable

from regroup.coordinator.classic.deadlines import Deadline

TICK_MS = 1
"""Kafka's timers move in steps of a millisecond; so no deadline is met in the same step that set it."""


class Timers:
    """Calls `passed(group, deadline)`, one deadline at a time, when `next_deadline(group)` lies behind `now()`.

    A sign of life only moves deadlines back, so it need not be told: the timer fires, finds nothing due, and is set
    again.
    """

    def __init__(
        self,
        next_deadline: Callable[[str], Deadline | None],
        passed: Callable[[str, Deadline], None],
        now: Callable[[], int],
    ) -> None:
        self._next_deadline = next_deadline
        self._passed = passed
        self._now = now
        self._set: dict[str, asyncio.TimerHandle] = {}
        self._changed: dict[str, None] = {}
        self._looking: asyncio.Handle | None = None

    def look_again(self, name: str) -> None:
        """The group has changed. Many changes of one moment are looked at once."""
        self._changed[name] = None
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_soon(self._look)

    def stop(self) -> None:
        """Forget every timer."""
        for handle in self._set.values():
            handle.cancel()
        self._set.clear()
        self._changed.clear()

    def _look(self) -> None:
        self._looking = None
        changed, self._changed = self._changed, {}
        for name in changed:
            self._arm(name)

    def _arm(self, name: str) -> None:
        """A timer that rings in time stays. When it rings is asked of the loop, since the clock may have jumped."""
        deadline = self._next_deadline(name)
        if deadline is None:
            return
        loop, present = asyncio.get_running_loop(), self._set.get(name)
        due_s = loop.time() + max(deadline.at_ms - self._now(), TICK_MS) / 1000
        if present and present.when() <= due_s + TICK_MS / 1000:
            return
        if present:
            present.cancel()
        self._set[name] = loop.call_at(due_s, self._fire, name)

    def _fire(self, name: str) -> None:
        self._set.pop(name, None)
        deadline = self._next_deadline(name)
        if deadline and deadline.at_ms <= self._now():
            self._passed(name, deadline)
        self._arm(name)
