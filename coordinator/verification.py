"""Verifies the history of groups: folds all events and checks every invariant on the way. `regroup verify` and the lab
use it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from regroup.coordinator.events import OFFSET_EVENTS, CoordinatorLoaded, Event
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.invariants import invariant_sentence, violations_of_group, violations_of_step, violations_since
from regroup.coordinator.serialization import (
    EVENT_TYPE_NAMES,
    SNAPSHOT_VERSION,
    UNREADABLE_ERRORS,
    decode_cause,
    decode_event,
    decode_snapshot,
)
from regroup.storage.errors import StoreError
from regroup.storage.records import Record, Snapshot

CLUSTER = "(cluster)"
"""The name that stands in place of the group id in a violation of the cluster's own events."""
LOADED = EVENT_TYPE_NAMES[CoordinatorLoaded]


class Violation(NamedTuple):
    """A broken invariant, and the position of the event that broke it."""

    position: int
    group: str
    sentence: str


def a_coordinator_epoch_begins_with_a_load(before: Group, last: Record, record: Record) -> bool:
    """A coordinator epoch begins with the load of the group, and an older epoch writes nothing any more."""
    if record.coordinator_epoch == last.coordinator_epoch:
        return True
    return record.coordinator_epoch > last.coordinator_epoch and (record.type == LOADED or not before.exists)


class GroupsVerifier:
    """Verifies the groups of a store, whose records it takes in order; `violations_of` returns what each record
    violates.

    The invariants of a group are checked when the command that changed it is complete, not between its events.
    """

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.last_event: Event | None = None
        """The event of the last record of a group; None if it could not be decoded."""
        self._last: dict[str, Record] = {}
        self._unchecked: dict[str, int] = {}
        """Groups whose invariants have not been checked since their last event, with the position of that event."""
        self._sound: dict[str, Group] = {}
        """Each group as it was when its invariants were last checked, if it broke none."""
        self._changed: dict[str, None] = {}
        """Groups that have changed since the last snapshots."""

    def begin_from(self, snapshots: Iterable[Snapshot]) -> None:
        """Start from these snapshots, where earlier records have been trimmed."""
        for each in snapshots:
            if each.group is not None:
                self.groups[each.group] = decode_snapshot(each)
                self._unchecked[each.group] = each.position

    def violations_of(self, record: Record) -> Iterator[Violation]:
        """What this record violates, and what the command that ended before it has violated."""
        if record.group is None:
            return
        yield from unreadable_parts(record)
        before = self.groups.get(record.group) or Group(group_id=record.group)
        last = self._last.get(record.group)
        if last and (last.cause, last.at_ms) != (record.cause, record.at_ms):
            yield from self._violations_of_group(record.group)
        self.last_event = None
        try:
            event = self.last_event = decode_event(record)
            after = evolve(before, event)
        except (StoreError, *UNREADABLE_ERRORS) as error:
            yield Violation(record.position, record.group, f"The event cannot be folded: {error}")
            return
        if last and not a_coordinator_epoch_begins_with_a_load(before, last, record):
            yield Violation(record.position, record.group, invariant_sentence(a_coordinator_epoch_begins_with_a_load))
        self.groups[record.group] = after
        self._last[record.group] = record
        self._changed[record.group] = None
        if not isinstance(event, OFFSET_EVENTS):
            self._unchecked[record.group] = record.position
        for broken in violations_of_step(before, event, after):
            yield Violation(record.position, record.group, broken)
        if record.event_number != after.event_number:
            sentence = f"The event has number {record.event_number}; expected {after.event_number}."
            yield Violation(record.position, record.group, sentence)

    def violations_at_end(self) -> Iterator[Violation]:
        """What the last command of each group violates, to be called after the last record: a command is checked only
        when it is complete."""
        for group_id in list(self._unchecked):
            yield from self._violations_of_group(group_id)

    def _violations_of_group(self, group_id: str) -> Iterator[Violation]:
        """The violations of one group's invariants. A group of which only offsets have changed since the last check
        need not be checked again."""
        position = self._unchecked.pop(group_id, None)
        if position is None:
            return
        group, sound = self.groups[group_id], self._sound.pop(group_id, None)
        found = violations_of_group(group) if sound is None else violations_since(sound, group)
        if not found:
            self._sound[group_id] = group
        for broken in found:
            yield Violation(position, group_id, broken)

    def violations_at_snapshot(self, position: int, snapshots: Iterable[Snapshot]) -> Iterator[Violation]:
        """What differs between the newest snapshot of each group up to `position` and the fold of the group's records
        so far.

        A coordinator that loads the groups from here has only the snapshots: none may be missing, outdated, newer than
        `position`, or of another group.
        """
        changed, self._changed = self._changed, {}
        present = {each.group: each for each in snapshots if each.group is not None}
        for group_id, snapshot in present.items():
            yield from self._violations_of_snapshot(snapshot, is_new=group_id in changed)
        for group_id in self.groups:
            if group_id not in present:
                yield Violation(position, group_id, f"The snapshots up to position {position} leave this group out.")

    def _violations_of_snapshot(self, snapshot: Snapshot, *, is_new: bool) -> Iterator[Violation]:
        if snapshot.version != SNAPSHOT_VERSION:
            return
        group_id = str(snapshot.group)
        group, last = self.groups.get(group_id), self._last.get(group_id)
        event_number = group.event_number if group else 0
        if snapshot.event_number != event_number or (last and snapshot.position != last.position):
            sentence = (
                f"A snapshot is of event {snapshot.event_number} at position {snapshot.position}; "
                f"the group's last event here is {event_number}."
            )
            yield Violation(last.position if last else 0, group_id, sentence)
        elif is_new:
            try:
                differs = decode_snapshot(snapshot) != group
            except StoreError as error:
                yield Violation(snapshot.position, group_id, str(error))
            else:
                if differs:
                    yield Violation(snapshot.position, group_id, "The snapshot differs from the fold of the events.")


def unreadable_parts(record: Record) -> Iterator[Violation]:
    """A violation for each part of a record that cannot be decoded and that no event contains: its cause."""
    group = CLUSTER if record.group is None else record.group
    try:
        decode_cause(record)
    except StoreError as error:
        yield Violation(record.position, group, str(error))
