"""The groups once more, folded from the rows that the store has taken: what a reader of the disk would believe.

    second.stored(records, last_position)     # from the store's append, before anybody is told that they are durable
    second.group("payments")

It folds through `Verifier`, so the laboratory and `regroup verify` check the same list, and it reads the rows' own
bytes: an event that is folded one way and written another shows here.
"""

from collections.abc import Iterable, Iterator, Sequence

from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import read
from regroup.coordinator.verification import Fault, Verifier
from regroup.storage.records import NewRecord, Record


class SecondState:
    """`position` is that of the last row it has seen."""

    def __init__(self) -> None:
        self.position = 0
        self._verifier = Verifier()

    @property
    def groups(self) -> dict[str, Group]:
        return self._verifier.groups

    def group(self, name: str) -> Group:
        return self._verifier.groups.get(name) or Group(name=name)

    def stored(self, records: Sequence[NewRecord], last_position: int) -> list[Fault]:
        """Fold what has just become durable; returns what it breaks."""
        faults: list[Fault] = []
        self.position = last_position - len(records)
        for new in records:
            self.position += 1
            if new.group is not None:
                faults += self._verifier.faults_of(as_record(new, self.position))
        return faults

    def faults_at_the_end(self) -> list[Fault]:
        """What the last commands broke."""
        return list(self._verifier.faults_at_the_end())

    def differs_from(self, records: Iterable[Record]) -> Iterator[str]:
        """Fold a whole store again, from its first row; names the groups that come out otherwise."""
        groups: dict[str, Group] = {}
        for record in records:
            if record.group is not None:
                group = groups.get(record.group) or Group(name=record.group)
                groups[record.group] = evolve(group, read(record))
        for name in dict.fromkeys([*groups, *self.groups]):
            if groups.get(name) != self.groups.get(name):
                yield name


def as_record(new: NewRecord, position: int) -> Record:
    return Record(new.group, new.number, new.reign, new.at_ms, new.type, new.version, new.payload, new.cause, position)
