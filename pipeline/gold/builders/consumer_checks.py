"""Checks groups of the consumer protocol with the coordinator's own invariants, for the table `violations`."""

from collections.abc import Iterator

from regroup.coordinator.consumer.invariants import CONSUMER_STEP_INVARIANTS
from regroup.coordinator.group import Group
from regroup.coordinator.invariants import invariant_sentence, violations_of_group
from regroup.pipeline.gold.builders.table_builder import TableBuilder, TableRow, Transition


class ConsumerChecks(TableBuilder):
    """Yields the violations of one group. The numbers of its events are checked elsewhere."""

    def __init__(self) -> None:
        self._last: tuple[int, Group] | None = None

    def on_event(self, transition: Transition) -> Iterator[TableRow]:
        if transition.begins_command:
            yield from self.on_end()
        position, before, event, after = (
            transition.record.position,
            transition.before,
            transition.event,
            transition.after,
        )
        for invariant in CONSUMER_STEP_INVARIANTS:
            if not invariant(before, event, after):
                yield violation(position, invariant_sentence(invariant))
        self._last = (position, after)

    def stop_within_command(self) -> None:
        """Note that the next event of the present command cannot be folded: the group need not be sound."""
        self._last = None

    def on_end(self) -> Iterator[TableRow]:
        """The invariants of the group hold after every command, and not between its events."""
        if self._last is not None:
            position, group = self._last
            self._last = None
            if group.consumer is not None:
                for sentence in violations_of_group(group):
                    yield violation(position, sentence)


def violation(position: int, sentence: str) -> TableRow:
    return "consumer_violations", {"position": position, "sentence": sentence}
