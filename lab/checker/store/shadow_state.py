"""The groups that the stored records add up to: a second state, to be compared with that of the coordinators.

    shadow.apply(records, last_position)        # from the store's append, before the coordinator is notified
    shadow.group("payments")

It evolves through `GroupsVerifier`, so the lab and `regroup verify` check the same invariants, and it reads the
records' own bytes: an event that is applied in one way and written in another shows here.
"""

from collections.abc import Iterable, Iterator, Sequence

from regroup.coordinator.events import Event
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import decode_event
from regroup.coordinator.verification import GroupsVerifier, Violation
from regroup.storage.records import NewRecord, Record


class ShadowState:
    """All groups of a run, evolved from the stored records by the same function with which coordinators evolve
    theirs."""

    def __init__(self) -> None:
        self.position = 0
        """Position of the last record that was applied."""
        self.events: list[Event | None] = []
        """The events in the records that were applied last; None for a record of the cluster or an unreadable one."""
        self._verifier = GroupsVerifier()

    @property
    def groups(self) -> dict[str, Group]:
        """Every group with a record, by its group id."""
        return self._verifier.groups

    def group(self, group_id: str) -> Group:
        """The group with this id; an empty group if it has no record."""
        return self._verifier.groups.get(group_id) or Group(group_id=group_id)

    def apply(self, records: Sequence[NewRecord], last_position: int) -> list[Violation]:
        """Apply records that have just become durable to their groups; returns the violated invariants of these groups.

        `last_position` is the position of the last record.
        """
        violations: list[Violation] = []
        self.position = last_position - len(records)
        self.events = []
        for new in records:
            self.position += 1
            if new.group is not None:
                violations += self._verifier.violations_of(new.stored_at(self.position))
            self.events.append(self._verifier.last_event if new.group is not None else None)
        return violations

    def violations_at_end(self) -> list[Violation]:
        """The violations that need the end of the history: those of the group after its last command."""
        return list(self._verifier.violations_at_end())

    def differing_groups(self, records: Iterable[Record]) -> Iterator[str]:
        """Evolve every group again from all these records of a store; yield the ids of those that differ from the
        groups here."""
        groups: dict[str, Group] = {}
        for record in records:
            if record.group is not None:
                group = groups.get(record.group) or Group(group_id=record.group)
                groups[record.group] = evolve(group, decode_event(record))
        for group_id in dict.fromkeys([*groups, *self.groups]):
            if groups.get(group_id) != self.groups.get(group_id):
                yield group_id
