"""Counts what happened to members between two rebalances or reconciliations, and finds what triggered each."""

from collections import Counter
from typing import Final

from regroup.coordinator.events import Event
from regroup.pipeline.gold.builders.table_builder import Transition

COUNTED: Final = ("joined", "left", "removed", "replaced")


class MemberChanges:
    """Counts the members of one group that joined, left, were removed and were replaced, and notes the last trigger.

    A trigger is the event that leads to a rebalance or group epoch; of several in one command the last one counts.
    """

    def __init__(self) -> None:
        self._changes: Counter[str] = Counter()
        """The number of events of each trigger since the last call of `take`, without those of the present command."""
        self._of_command: Counter[str] = Counter()
        self.trigger: Event | None = None
        self.trigger_name = ""
        """The trigger among the events of the present command, and its name; empty if there is none."""
        self.members_before = 0
        """The number of members before the present command."""

    def on_event(self, transition: Transition, name: str | None) -> None:
        """Count an event; `name` is its name as a trigger, None if it is none.

        It must be passed here before the rebalance that it starts takes the counts.
        """
        if transition.begins_command:
            if self._of_command:
                self._changes += self._of_command
                self._of_command.clear()
            self.trigger, self.trigger_name = None, ""
            self.members_before = len(transition.before.member_ids)
        if name is not None:
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
