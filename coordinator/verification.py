"""Folding a whole history and checking every invariant on the way: what `regroup verify` and the lab do."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from regroup.coordinator.events import OFFSETS_ALONE, CoordinatorLoaded
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.invariants import broken_by_group, broken_by_step, sentence
from regroup.coordinator.written import ILLEGIBLE, NAME_OF, SNAPSHOT_VERSION, read, read_snapshot
from regroup.storage.errors import StoreError
from regroup.storage.records import Record, Snapshot

LOADED = NAME_OF[CoordinatorLoaded]


class Fault(NamedTuple):
    """Something that does not hold, and the position of the event after which it does not."""

    position: int
    group: str
    sentence: str


def a_reign_begins_with_a_load(before: Group, last: Record, record: Record) -> bool:
    """A new reign begins with the load of the group, and an older one writes nothing any more."""
    if record.reign == last.reign:
        return True
    return record.reign > last.reign and (record.type == LOADED or not before.exists)


class Verifier:
    """Give it a store's records in order; `faults_of` says what each one breaks.

    What must hold of a group is checked when the command that moved it is over: between the events of one command a
    group may be on its way.
    """

    def __init__(self, snapshots: Iterable[Snapshot] = ()) -> None:
        self.groups: dict[str, Group] = {}
        self._last: dict[str, Record] = {}
        self._moved: dict[str, int] = {}
        """Groups that are not checked yet, and where they moved last."""
        self._snapshots: dict[tuple[str | None, int], Snapshot] = {
            (each.group, each.number): each for each in snapshots if each.group is not None
        }

    def begin_from(self, snapshots: Iterable[Snapshot]) -> None:
        """Where earlier records have been trimmed away, the fold begins here."""
        for each in snapshots:
            if each.group is not None:
                self.groups[each.group] = read_snapshot(each)
                self._moved[each.group] = each.position

    def faults_of(self, record: Record) -> Iterator[Fault]:
        """What this record breaks, or shows to have been broken by the command before it."""
        if record.group is None:
            return
        before = self.groups.get(record.group) or Group(name=record.group)
        last = self._last.get(record.group)
        if last and (last.cause, last.at_ms) != (record.cause, record.at_ms):
            yield from self._faults_at_rest(record.group)
        try:
            event = read(record)
            after = evolve(before, event)
        except (StoreError, *ILLEGIBLE) as error:
            yield Fault(record.position, record.group, f"The event cannot be folded: {error}")
            return
        if last and not a_reign_begins_with_a_load(before, last, record):
            yield Fault(record.position, record.group, sentence(a_reign_begins_with_a_load))
        self.groups[record.group] = after
        self._last[record.group] = record
        if not isinstance(event, OFFSETS_ALONE):
            self._moved[record.group] = record.position
        for broken in broken_by_step(before, event, after):
            yield Fault(record.position, record.group, broken)
        if record.number != after.number:
            yield Fault(record.position, record.group, f"The event is number {record.number}, not {after.number}.")
        yield from self._differs_from_snapshot(record, after)

    def faults_at_the_end(self) -> Iterator[Fault]:
        """What the last commands broke."""
        for name in list(self._moved):
            yield from self._faults_at_rest(name)

    def _faults_at_rest(self, name: str) -> Iterator[Fault]:
        """Of a group that has only got other offsets, everything holds that held before."""
        position = self._moved.pop(name, None)
        if position is not None:
            for broken in broken_by_group(self.groups[name]):
                yield Fault(position, name, broken)

    def _differs_from_snapshot(self, record: Record, group: Group) -> Iterator[Fault]:
        snapshot = self._snapshots.get((record.group, record.number))
        if not snapshot or snapshot.version != SNAPSHOT_VERSION:
            return
        try:
            differs = read_snapshot(snapshot) != group
        except StoreError as error:
            yield Fault(record.position, group.name, str(error))
        else:
            if differs:
                yield Fault(record.position, group.name, "The snapshot taken here is not what the events add up to.")
