"""Members whose connection the broker has declared dead, while the coordinator still waits for them.

    deaths.announce(Death("payments", "anna-1f2e…", "laptop-1", at_ms))
    deaths.of("payments")       {"anna-1f2e…": Death(…)}: to be shown beside the member's session timeout

A death is a word about a connection, not about a group: nothing of it is stored, and a sign of life takes it back.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple


class Death(NamedTuple):
    """`name` is the member's on MQTT, `at_ms` when its last will came."""

    group: str
    member: str
    name: str
    at_ms: int


class Deaths:
    """`changed` is called with the group whenever somebody died, or turned out to live."""

    def __init__(self, changed: Callable[[str], None] = lambda group: None) -> None:
        self.changed = changed
        self._by_group: dict[str, dict[str, Death]] = {}

    def announce(self, death: Death) -> None:
        self._by_group.setdefault(death.group, {})[death.member] = death
        self.changed(death.group)

    def lives(self, group: str, member: str) -> None:
        """It was heard again."""
        if member in self._by_group.get(group, {}):
            del self._by_group[group][member]
            self.changed(group)

    def of(self, group: str) -> Mapping[str, Death]:
        """The dead of a group, by member id."""
        return self._by_group.get(group, {})

    def keep_only(self, group: str, members: Collection[str]) -> None:
        """Whoever is no member any more is nobody's concern."""
        dead = self._by_group.get(group)
        if dead is None:
            return
        left = {member: death for member, death in dead.items() if member in members}
        if left:
            self._by_group[group] = left
        else:
            del self._by_group[group]
