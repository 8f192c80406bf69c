"""Folds the events of one group with the coordinator's `evolve`, and gives each to the builders of all tables.

    history = GroupHistory("payments")
    for record in records:
        rows += history.on_record(record)
    rows += history.on_end()

This module does not use Spark, so a plain loop gives the same rows.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from regroup.coordinator.events import OffsetsCommitted
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, GroupKind
from regroup.coordinator.serialization import (
    UNREADABLE_ERRORS,
    damaged,
    decode_event,
    decode_snapshot,
    group_as_json,
)
from regroup.pipeline.gold.commits import OffsetCommits
from regroup.pipeline.gold.generation_members import GenerationMembers
from regroup.pipeline.gold.member_lifetimes import MemberLifetimes
from regroup.pipeline.gold.ownership import Ownership
from regroup.pipeline.gold.rebalances import Rebalances
from regroup.pipeline.gold.table_builder import TableBuilder, TableRow, Transition
from regroup.pipeline.gold.transitions import Transitions
from regroup.pipeline.source.columns import SNAPSHOT_TYPE
from regroup.storage.errors import StoreError
from regroup.storage.records import Record, Snapshot

TOPIC_EVENT_TYPES: Final = ("topic-created", "partitions-added", "topic-deleted")
"""Events of the cluster that every group's history gets, since they say how many partitions a topic has."""


class TopicPayload(msgspec.Struct):
    """What is read of a topic event's payload: the topic and its number of partitions, which is 0 for a deleted one."""

    name: str
    partitions: int = 0


TOPIC_DECODER: Final = msgspec.json.Decoder(TopicPayload)


class GroupHistory:
    """The history of one group.

    It gets the records of the group and the topic events of its store, in order of position.
    """

    def __init__(self, group_id: str) -> None:
        self._group = Group(group_id=group_id)
        self._ownership = Ownership()
        self._lifetimes = MemberLifetimes()
        self._commits = OffsetCommits(self._ownership)
        self._transitions = Transitions()
        # Rebalances compare with the owners before the event, so they come before the ownership.
        self._builders: tuple[TableBuilder, ...] = (
            Rebalances(self._ownership),
            self._ownership,
            self._lifetimes,
            GenerationMembers(),
            self._commits,
            self._transitions,
        )
        self._began_command = False
        """Whether the present command began with an offset commit, which only the table `commits` gets."""
        self._last: Record | None = None
        self._snapshot: Group | None = None
        self._fold_error = ""

    def on_record(self, record: Record) -> Sequence[TableRow]:
        """Take the next record; returns the rows that are complete now.

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
        return [("fold_errors", {"position": record.position, "sentence": self._fold_error})]

    def on_end(self) -> Iterator[TableRow]:
        """The remaining rows after the last record: those that were incomplete, and the row of the table `groups`."""
        for builder in self._builders:
            yield from builder.on_end()
        yield (
            "groups",
            {
                "position": self._last.position if self._last else 0,
                "event_number": self._group.event_number,
                "state": self._group.state_name,
                "generation_id": self._group.generation_id,
                "members": len(self._group.member_ids),
                "is_complete": not self._fold_error,
                "json": msgspec.json.encode(group_as_json(self._group)).decode(),
            },
        )

    def _rows_of(self, record: Record) -> list[TableRow]:
        if record.type in TOPIC_EVENT_TYPES:
            topic = TOPIC_DECODER.decode(record.payload)
            return list(self._ownership.on_topic(topic.name, topic.partitions, record.at_ms))
        if record.type != SNAPSHOT_TYPE:
            return self._rows_of_event(record)
        stored = {field: getattr(record, field) for field in Snapshot.__struct_fields__}
        self._group = self._snapshot = decode_snapshot(Snapshot(**stored))
        self._last = record
        return []

    def _rows_of_event(self, record: Record) -> list[TableRow]:
        """Give an event to the builders; returns the rows that are complete now.

        An error of a builder counts as an error of the fold.
        """
        if self._snapshot is not None:
            self._ownership.on_snapshot(self._snapshot, record.at_ms)
            self._lifetimes.on_snapshot(self._snapshot)
            self._snapshot = None
        last, event, before = self._last, decode_event(record), self._group
        begins_command = last is None or not is_same_command(last, record)
        after = evolve(before, event)
        if GroupKind.CONSUMER in (before.kind, after.kind):
            rows = []  # the tables are about the classic protocol; `groups` has these groups too
        elif isinstance(event, OffsetsCommitted):
            # Most events: only one table has rows for it.
            rows = list(self._commits.on_event(Transition(record, event, before, after, begins_command)))
            self._began_command |= begins_command
        else:
            transition = Transition(record, event, before, after, begins_command or self._began_command)
            rows = [row for builder in self._builders for row in builder.on_event(transition)]
            self._began_command = False
        self._group, self._last = after, record
        return rows


def is_same_command(record: Record, following: Record) -> bool:
    """Whether two records that follow each other are of one command: they have the same cause and time."""
    return (record.cause, record.at_ms) == (following.cause, following.at_ms)
