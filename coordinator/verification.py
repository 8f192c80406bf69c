"""Folding a whole history and checking every invariant on the way: what `regroup verify` and the lab do."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from regroup.coordinator.events import OFFSETS_ALONE, CoordinatorLoaded
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.invariants import broken_by_group, broken_by_step, sentence
from regroup.coordinator.serialization import ILLEGIBLE, NAME_OF, SNAPSHOT_VERSION, read, read_cause, read_snapshot
from regroup.storage.errors import StoreError
from regroup.storage.records import Record, Snapshot

CLUSTER = "(cluster)"
"""Stands in a `Fault` where groups have their name."""
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

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self._last: dict[str, Record] = {}
        self._moved: dict[str, int] = {}
        """Groups that are not checked yet, and where they moved last."""
        self._uncut: dict[str, None] = {}
        """Groups that have changed since the last cut."""

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
        yield from illegible(record)
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
        self._uncut[record.group] = None
        if not isinstance(event, OFFSETS_ALONE):
            self._moved[record.group] = record.position
        for broken in broken_by_step(before, event, after):
            yield Fault(record.position, record.group, broken)
        if record.number != after.number:
            yield Fault(record.position, record.group, f"The event is number {record.number}, not {after.number}.")

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

    def faults_at_cut(self, cut: int, snapshots: Iterable[Snapshot]) -> Iterator[Fault]:
        """Whether these, the newest of each group up to the cut, are what its records so far add up to.

        Whoever begins to read there knows nothing else, so none may be missing, late, early or about nobody.
        """
        changed, self._uncut = self._uncut, {}
        there = {each.group: each for each in snapshots if each.group is not None}
        for name, snapshot in there.items():
            yield from self._faults_of_snapshot(snapshot, is_new=name in changed)
        for name in [name for name in self.groups if name not in there]:
            yield Fault(cut, name, f"The snapshots up to position {cut} leave this group out.")

    def _faults_of_snapshot(self, snapshot: Snapshot, *, is_new: bool) -> Iterator[Fault]:
        name = str(snapshot.group)
        group, last = self.groups.get(name), self._last.get(name)
        number = group.number if group else 0
        if snapshot.version != SNAPSHOT_VERSION:
            return
        if snapshot.number != number or (last and snapshot.position != last.position):
            at = f"event {snapshot.number} at position {snapshot.position}"
            yield Fault(last.position if last else 0, name, f"A snapshot is of {at}; here is event {number}.")
        elif is_new:
            try:
                differs = read_snapshot(snapshot) != group
            except StoreError as error:
                yield Fault(snapshot.position, name, str(error))
            else:
                if differs:
                    yield Fault(snapshot.position, name, "The snapshot taken here is not what the events add up to.")


def illegible(record: Record) -> Iterator[Fault]:
    """What stands beside an event, and is not folded: when it happened, and what led to it."""
    whose = CLUSTER if record.group is None else record.group
    if not isinstance(record.at_ms, int):
        yield Fault(record.position, whose, f"The time of the event is {record.at_ms!r}, and no number.")
    try:
        read_cause(record)
    except StoreError as error:
        yield Fault(record.position, whose, str(error))
