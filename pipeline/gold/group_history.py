"""Folds the events of one group with the coordinator's `evolve`, and gives each to the builders of all tables.

    history = GroupHistory("payments")
    for record in records:
        rows += history.on_record(record)
    rows += history.on_end()

This module does not use Spark, so a plain loop gives the same rows.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

from regroup.coordinator.events import Event, OffsetsCommitted
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, GroupKind
from regroup.coordinator.serialization import (
    UNREADABLE_ERRORS,
    damaged,
    decode_event,
    decode_snapshot,
    group_as_json,
)
from regroup.pipeline.gold.builders.commits import OffsetCommits
from regroup.pipeline.gold.builders.consumer_checks import ConsumerChecks
from regroup.pipeline.gold.builders.generation_members import GenerationMembers
from regroup.pipeline.gold.builders.member_lifetimes import MemberLifetimes
from regroup.pipeline.gold.builders.owners import owners_of
from regroup.pipeline.gold.builders.ownership import Ownership
from regroup.pipeline.gold.builders.rebalances import Rebalances
from regroup.pipeline.gold.builders.reconciliations import Reconciliations
from regroup.pipeline.gold.builders.table_builder import TableBuilder, TableRow, Transition
from regroup.pipeline.gold.builders.target_members import TargetMembers
from regroup.pipeline.gold.builders.transitions import Transitions
from regroup.pipeline.source.columns import SNAPSHOT_TYPE
from regroup.storage.errors import StoreError
from regroup.storage.records import Record, Snapshot

TOPIC_EVENT_TYPES: Final = ("topic-created", "partitions-added", "topic-deleted")
"""Events of the cluster that every group's history gets: they say how many partitions a topic has, and its id."""


class TopicPayload(msgspec.Struct):
    """The fields of a topic event that are read: topic and number of partitions, which is 0 if it was deleted."""

    name: str
    topic_id: str = ""
    partitions: int = 0


TOPIC_DECODER: Final = msgspec.json.Decoder(TopicPayload)


class GroupHistory:
    """Folds one group: takes the group's records and its store's topic events in order, and returns table rows."""

    def __init__(self, group_id: str) -> None:
        self._group = Group(group_id=group_id)
        ownership = self._ownership = Ownership()
        self._owners = owners_of(ownership)
        self._lifetimes = MemberLifetimes()
        self._commits = OffsetCommits(ownership)
        self._transitions = Transitions()
        self._checks = ConsumerChecks()
        # Rebalances and reconciliations compare with the owners before the event, so they come first.
        self._builders_of: dict[GroupKind, tuple[TableBuilder, ...]] = {
            GroupKind.CLASSIC: (Rebalances(ownership), self._owners[GroupKind.CLASSIC], GenerationMembers()),
            GroupKind.CONSUMER: (
                Reconciliations(ownership),
                self._owners[GroupKind.CONSUMER],
                TargetMembers(ownership.topic_names),
                self._checks,
            ),
        }
        self._common_builders: tuple[TableBuilder, ...] = (self._lifetimes, self._commits, self._transitions)
        self._last_of: dict[GroupKind | None, Record] = {}
        """The last record that the builders of a kind got, and the common ones; a commit of offsets counts for none."""
        self._last: Record | None = None
        self._snapshot: Group | None = None
        self._fold_error = ""

    def on_record(self, record: Record) -> Sequence[TableRow]:
        """Take the next record, and return the rows that it completes.

        After a record that cannot be folded, all further ones are ignored.
        """
        if self._fold_error:
            return ()
        try:
            return self._rows_of(record)
        except StoreError as error:
            self._fold_error = f"The event cannot be folded: {error}"
        except UNREADABLE_ERRORS as error:
            self._fold_error = f"The event cannot be folded: {damaged(f'Record {record.position}', error)}"
        if self._last is not None and is_same_command(self._last, record):
            self._transitions.stop_within_command()
            self._checks.stop_within_command()
        return [("fold_errors", {"position": record.position, "sentence": self._fold_error})]

    def on_end(self) -> Iterator[TableRow]:
        """Yield the rows that are incomplete after the last record, and the row of the table `groups`."""
        for builder in (*chain(*self._builders_of.values()), *self._common_builders):
            yield from builder.on_end()
        yield from self._ownership.on_end()
        consumer = self._group.consumer
        yield (
            "groups",
            {
                "position": self._last.position if self._last else 0,
                "event_number": self._group.event_number,
                "protocol": self._group.kind.value,
                "state": self._group.state_name,
                "generation_id": self._group.generation_id,
                "group_epoch": consumer.group_epoch if consumer else None,
                "assignment_epoch": consumer.assignment_epoch if consumer else None,
                "members": len(self._group.member_ids),
                "is_complete": not self._fold_error,
                "json": msgspec.json.encode(group_as_json(self._group)).decode(),
            },
        )

    def _rows_of(self, record: Record) -> list[TableRow]:
        if record.type in TOPIC_EVENT_TYPES:
            topic = TOPIC_DECODER.decode(record.payload)
            self._ownership.on_topic(topic.name, topic.partitions, topic.topic_id)
            if not self._group.exists:
                return []
            return list(self._owners[self._group.kind].update_gaps(self._group, record.at_ms))
        if record.type != SNAPSHOT_TYPE:
            return self._rows_of_event(record)
        stored = {field: getattr(record, field) for field in Snapshot.__struct_fields__}
        self._group = self._snapshot = decode_snapshot(Snapshot(**stored))
        self._last = record
        return []

    def _rows_of_event(self, record: Record) -> list[TableRow]:
        """Fold an event, pass it to the builders of tables, and return the rows that it completes.

        An error of a builder counts as an error of the fold.
        """
        if self._snapshot is not None:
            self._owners[self._snapshot.kind].on_snapshot(self._snapshot, record.at_ms)
            self._lifetimes.on_snapshot(self._snapshot, record.at_ms)
            self._snapshot = None
        event, before = decode_event(record), self._group
        after = evolve(before, event)
        if isinstance(event, OffsetsCommitted):
            # Most events: only one table has rows for it.
            begins_command = self._last is None or not is_same_command(self._last, record)
            rows = list(self._commits.on_event(Transition(record, event, before, after, begins_command)))
        else:
            rows = []
            for kind in dict.fromkeys((before.kind, after.kind)):
                transition = self._transition(kind, record, event, before, after)
                rows += [row for builder in self._builders_of[kind] for row in builder.on_event(transition)]
            transition = self._transition(None, record, event, before, after)
            rows += [row for builder in self._common_builders for row in builder.on_event(transition)]
        self._group, self._last = after, record
        return rows

    def _transition(
        self, kind: GroupKind | None, record: Record, event: Event, before: Group, after: Group
    ) -> Transition:
        """The event as the builders for a kind of group get it (None: those for both kinds).

        `begins_command` is True if they have got no event of its command before.
        """
        last = self._last_of.get(kind)
        self._last_of[kind] = record
        return Transition(record, event, before, after, last is None or not is_same_command(last, record))


def is_same_command(record: Record, following: Record) -> bool:
    """Whether two records that follow each other are of one command: they have the same cause and time."""
    return (record.cause, record.at_ms) == (following.cause, following.at_ms)
