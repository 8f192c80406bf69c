"""Timers of the groups' deadlines: each group has one timer, set to its earliest deadline and checked when the group
changes.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from regroup.coordinator.commands import Deadline

TICK_MS = 1
"""The step of Kafka's timers in milliseconds. No deadline passes in the step in which it was set."""
ROUNDING_S: Final = 1e-9
"""How far two sums of seconds may lie apart that stand for the same time."""


class _Timer(NamedTuple):
    """The handle of a group's timer, and the time of the event loop at which it fires, which uvloop's handles do not
    always know."""

    handle: asyncio.Handle
    due_s: float


class GroupTimers:
    """Calls `on_deadline(group_id, deadline)`, one deadline at a time, once `now()` has reached it.

    A deadline that has passed already is handled after `tick_ms`, and others up to `tick_ms` late: `now` has whole
    milliseconds, so the same deadline seems to be earlier or later when it is looked up again, and its timer stays.
    `tick_ms` is 0 for a clock that stands still between two requests.
    A heartbeat that moves deadlines back needs no call: the timer fires, finds nothing due, and is set again. Where a
    timer is set, `changed_deadline` may leave out deadlines that have not become earlier since it was called last.
    """

    def __init__(
        self,
        next_deadline: Callable[[str], Deadline | None],
        on_deadline: Callable[[str, Deadline], None],
        now: Callable[[], int],
        tick_ms: int = TICK_MS,
        changed_deadline: Callable[[str], Deadline | None] | None = None,
    ) -> None:
        self._next_deadline = next_deadline
        self._changed_deadline = changed_deadline or next_deadline
        self._on_deadline = on_deadline
        self._now = now
        self._tick_ms = tick_ms
        self._timers: dict[str, _Timer] = {}
        self._changed: dict[str, None] = {}
        self._check: asyncio.Handle | None = None

    def reschedule(self, group_id: str) -> None:
        """Let the group's timer be set again, because the group has changed. This is done once at the end of the
        present step of the event loop, also after many changes."""
        self._changed[group_id] = None
        if self._check is None:
            self._check = asyncio.get_running_loop().call_soon(self._set_changed)

    def stop(self) -> None:
        """Cancel every timer."""
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()
        self._changed.clear()

    def _set_changed(self) -> None:
        self._check = None
        changed, self._changed = self._changed, {}
        for group_id in changed:
            self._set(group_id)

    def _set(self, group_id: str) -> None:
        """Set the group's timer to its earliest deadline. A timer that fires early enough stays. The delay is measured
        by the loop's clock, since `now` may jump."""
        loop, present = asyncio.get_running_loop(), self._timers.get(group_id)
        deadline = self._changed_deadline(group_id) if present else self._next_deadline(group_id)
        if deadline is None:
            return
        due_s = loop.time() + max(deadline.at_ms - self._now(), self._tick_ms) / 1000
        if present and present.due_s <= due_s + self._tick_ms / 1000 + ROUNDING_S:
            return
        if present:
            present.handle.cancel()
        self._timers[group_id] = _Timer(loop.call_at(due_s, self._fire, group_id), due_s)

    def _fire(self, group_id: str) -> None:
        self._timers.pop(group_id, None)
        deadline = self._next_deadline(group_id)
        if deadline and deadline.at_ms <= self._now():
            self._on_deadline(group_id, deadline)
        self._set(group_id)
