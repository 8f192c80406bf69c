"""Checks groups of the consumer protocol with the coordinator's own invariants, for the table `violations`."""

from collections.abc import Iterator

from regroup.coordinator.consumer.invariants import CONSUMER_STEP_INVARIANTS
from regroup.coordinator.group import Group
from regroup.coordinator.invariants import invariant_sentence, violations_of_group
from regroup.pipeline.gold.builders.table_builder import TableBuilder, TableRow, Transition


class ConsumerChecks(TableBuilder):
    """Yields the invariants of the consumer protocol that one group violates. Event numbers are checked elsewhere."""

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
        """Skip the check after the present command, whose next event cannot be folded.

        Invariants need not hold between the events of a command.
        """
        self._last = None

    def on_end(self) -> Iterator[TableRow]:
        """Yield the violations of the group after its last command; invariants need not hold within a command."""
        if self._last is not None:
            position, group = self._last
            self._last = None
            if group.consumer is not None:
                for sentence in violations_of_group(group):
                    yield violation(position, sentence)


def violation(position: int, sentence: str) -> TableRow:
    return "consumer_violations", {"position": position, "sentence": sentence}
