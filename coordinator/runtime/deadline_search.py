"""The search for the deadline to which a group's timer is set."""

import asyncio
from collections.abc import Callable
from typing import Final

from regroup.coordinator.commands import Deadline
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.deadlines import with_changed_members

MAX_CLOCK_DRIFT_MS: Final = 2
"""How far the coordinator's clock and the event loop's may go apart, in milliseconds, before all deadlines of a group
are looked at again."""


class DeadlineSearch:
    """Searches all deadlines of a group, or those that may have become earlier since the last search.

    `group_of` returns a group by its id, `earliest_of` the earliest deadline of a group. `now` is the clock of the
    deadlines, while timers follow that of the event loop.
    """

    def __init__(
        self,
        group_of: Callable[[str], Group | None],
        earliest_of: Callable[[Group], Deadline | None],
        now: Callable[[], int],
    ) -> None:
        self._group_of = group_of
        self._earliest_of = earliest_of
        self._now = now
        self._searched: dict[str, tuple[Group, float]] = {}
        """Each group at its last search, and by how many milliseconds the clocks differed when it was searched in
        full."""

    def earliest(self, group_id: str) -> Deadline | None:
        """The earliest deadline of the group, found among all of them; None if it has none."""
        group = self._group_of(group_id)
        if group is None:
            return None
        self._searched[group_id] = (group, self._clock_difference_ms())
        return self._earliest_of(group)

    def changed(self, group_id: str) -> Deadline | None:
        """The earliest deadline of those members and other parts of the group that have changed since the last search;
        the earliest of all if one of the clocks was set since then."""
        before, difference_ms = self._searched.get(group_id, (None, 0.0))
        group = self._group_of(group_id)
        is_same_clock = abs(self._clock_difference_ms() - difference_ms) <= MAX_CLOCK_DRIFT_MS
        if before is None or group is None or not is_same_clock:
            return self.earliest(group_id)
        self._searched[group_id] = (group, difference_ms)
        return self._earliest_of(with_changed_members(before, group))

    def forget(self, group_id: str) -> None:
        """Let the next search look at all deadlines of the group. Needed if a deadline has become earlier although its
        member, which a search compares, is the same."""
        self._searched.pop(group_id, None)

    def _clock_difference_ms(self) -> float:
        return self._now() - asyncio.get_running_loop().time() * 1000
