"""Counts what happened to members between two rebalances or reconciliations, and finds what triggered each."""

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from regroup.coordinator.events import Event
from regroup.pipeline.gold.builders.table_builder import Transition

COUNTED: Final = ("joined", "left", "removed", "replaced")

TriggerName: TypeAlias = Callable[[Transition], str | None]
"""A function that names the trigger that an event is; None if it is none."""


class MemberChanges:
    """Counts the members of one group that joined, left, were removed and were replaced, and notes the last trigger.

    A trigger is the event that leads to a rebalance or group epoch; of several in one command the last one counts.
    """

    def __init__(self, name_of: TriggerName) -> None:
        self._name_of = name_of
        self._changes: Counter[str] = Counter()
        """The number of events of each trigger since the last call of `take`, without those of the present command."""
        self._of_command: Counter[str] = Counter()
        self.trigger: Event | None = None
        self.trigger_name = ""
        """The trigger among the events of the present command, and its name; empty if there is none."""
        self.members_before = 0
        """The number of members before the present command."""

    def on_event(self, transition: Transition) -> None:
        """Count an event. It must be passed here before the rebalance that it starts takes the counts."""
        if transition.begins_command:
            self._changes += self._of_command
            self._of_command.clear()
            self.trigger, self.trigger_name = None, ""
            self.members_before = len(transition.before.member_ids)
        if (name := self._name_of(transition)) is not None:
            self.trigger, self.trigger_name = transition.event, name
            self._of_command[name] += 1

    def take(self, *, with_command: bool) -> dict[str, int]:
        """Return how many members joined, left, were removed and were replaced, and set these counts to 0.

        Without `with_command` the events of the present command are not included, and count for the next call.
        """
        changes = self._changes
        if with_command:
            changes = changes + self._of_command
            self._of_command.clear()
        self._changes = Counter()
        return {each: changes[each] for each in COUNTED}
