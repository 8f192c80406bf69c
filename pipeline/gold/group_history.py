"""Folds the events of one group with the coordinator's `evolve`, and gives each to the builders of all tables.

    history, rows = GroupHistory("payments"), FoldedRows()
    for record in records:
        history.on_record(record, rows)
    history.on_end(rows)

This module does not use Spark, so a plain loop gives the same rows.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from regroup.coordinator.events import Event, OffsetsCommitted
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import CommittedOffset, Group, GroupKind
from regroup.coordinator.serialization import (
    ENCODER,
    UNREADABLE_ERRORS,
    damaged,
    decode_event,
    decode_snapshot,
)
from regroup.pipeline.gold.builders.commits import OffsetCommits
from regroup.pipeline.gold.builders.generation_members import GenerationMembers
from regroup.pipeline.gold.builders.invariant_checks import InvariantChecks, add_violation
from regroup.pipeline.gold.builders.member_lifetimes import MemberLifetimes
from regroup.pipeline.gold.builders.missing_joiners import MissingJoiners
from regroup.pipeline.gold.builders.owners import owners_of
from regroup.pipeline.gold.builders.ownership import Ownership
from regroup.pipeline.gold.builders.rebalances import Rebalances
from regroup.pipeline.gold.builders.reconciliations import Reconciliations
from regroup.pipeline.gold.builders.table_builder import TableBuilder, Transition
from regroup.pipeline.gold.builders.target_members import TargetMembers
from regroup.pipeline.gold.builders.transitions import Transitions
from regroup.pipeline.gold.folded_rows import FoldedRows
from regroup.pipeline.source.columns import SNAPSHOT_TYPE
from regroup.storage.errors import StoreError
from regroup.storage.records import Record, Snapshot

TOPIC_EVENT_TYPES: Final = ("topic-created", "partitions-added", "topic-deleted")
"""Events of the cluster that every group's history gets: they say how many partitions a topic has, and its id."""
COMMIT_TYPE: Final = "offsets-committed"


class TopicPayload(msgspec.Struct):
    """The fields of a topic event that are read: topic and number of partitions, which is 0 if it was deleted."""

    name: str
    topic_id: str = ""
    partitions: int = 0


TOPIC_DECODER: Final = msgspec.json.Decoder(TopicPayload)


class UnfoldedCommits:
    """Commits of offsets that follow each other, which are folded as one: `evolve` would copy a group for each."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[int, CommittedOffset]] = {}
        """The last offset of each partition, by topic and number."""
        self.events = 0

    def add(self, event: OffsetsCommitted) -> None:
        self.events += 1
        for topic, offsets in event.offsets.items():
            self.offsets.setdefault(topic, {}).update(offsets)

    def folded(self, group: Group) -> Group:
        """The group after these commits. It must have no offsets of open transactions."""
        if not self.events:
            return group
        after = evolve(group, OffsetsCommitted(at_ms=0, offsets=self.offsets))
        after = replace(after, event_number=group.event_number + self.events)
        self.offsets, self.events = {}, 0
        return after


class GroupHistory:
    """Folds one group: takes the group's records and its store's topic events in order, and adds rows of tables."""

    def __init__(self, group_id: str) -> None:
        self._group = Group(group_id=group_id)
        self._unfolded = UnfoldedCommits()
        ownership = self._ownership = Ownership()
        self._owners = owners_of(ownership)
        self._lifetimes = MemberLifetimes()
        self._commits = OffsetCommits(ownership)
        self._transitions = Transitions()
        self._checks = InvariantChecks()
        # Rebalances and reconciliations compare with the owners before the event, so they come first.
        self._classic_builders: tuple[TableBuilder, ...] = (
            Rebalances(ownership),
            self._owners[GroupKind.CLASSIC],
            GenerationMembers(),
            MissingJoiners(),
        )
        self._consumer_builders: tuple[TableBuilder, ...] = (
            Reconciliations(ownership),
            self._owners[GroupKind.CONSUMER],
            TargetMembers(ownership.topic_names),
        )
        self._common_builders: tuple[TableBuilder, ...] = (
            self._lifetimes,
            self._commits,
            self._transitions,
            self._checks,
        )
        self._last_of: dict[GroupKind | None, Record] = {}
        """The last record that the builders of a kind got, and the common ones; a commit of offsets counts for none."""
        self._last: Record | None = None
        self._snapshot: Group | None = None
        self._fold_error = ""

    def on_record(self, record: Record, rows: FoldedRows) -> None:
        """Take the next record, and add the rows that it completes.

        After a record that cannot be folded, all further ones are ignored.
        """
        if self._fold_error:
            return
        before = None
        try:
            if record.type == COMMIT_TYPE:
                self._on_commit(record, rows)
                return
            before = rows.counts()
            self._on_record(record, rows)
            return
        except StoreError as error:
            self._fold_error = f"The event cannot be folded: {error}"
        except UNREADABLE_ERRORS as error:
            self._fold_error = f"The event cannot be folded: {damaged(f'Record {record.position}', error)}"
        if before is not None:
            rows.cut(before)
        if self._last is not None and is_same_command(self._last, record):
            self._transitions.stop_within_command()
            self._checks.stop_within_command()
        rows.add("fold_errors", {"position": record.position, "sentence": self._fold_error})
        add_violation(rows, record.position, self._fold_error)

    def on_end(self, rows: FoldedRows) -> None:
        """Add the rows that are incomplete after the last record, and the row of the table `groups`."""
        for builder in (*self._classic_builders, *self._consumer_builders, *self._common_builders):
            builder.on_end(rows)
        self._ownership.on_end(rows)
        group = self._group = self._unfolded.folded(self._group)
        consumer = group.consumer
        rows.add(
            "groups",
            {
                "position": self._last.position if self._last else 0,
                "event_number": group.event_number,
                "protocol": group.kind.value,
                "state": group.state_name,
                "generation_id": group.generation_id,
                "group_epoch": consumer.group_epoch if consumer else None,
                "assignment_epoch": consumer.assignment_epoch if consumer else None,
                "members": len(group.member_ids),
                "is_complete": not self._fold_error,
                "json": ENCODER.encode(group).decode(),
            },
        )

    def _on_record(self, record: Record, rows: FoldedRows) -> None:
        if record.type in TOPIC_EVENT_TYPES:
            self._begin_with_snapshot(record.at_ms)
            topic = TOPIC_DECODER.decode(record.payload)
            self._ownership.on_topic(topic.name, topic.partitions, topic.topic_id, record.at_ms)
            if self._group.exists:
                self._owners[self._group.kind].update_gaps(self._group, record.at_ms, rows)
            else:
                self._ownership.find_unowned(record.at_ms, rows)
        elif record.type == SNAPSHOT_TYPE:
            stored = {field: getattr(record, field) for field in Snapshot.__struct_fields__}
            self._group = self._snapshot = decode_snapshot(Snapshot(**stored))
            self._unfolded = UnfoldedCommits()
            self._last = record
        else:
            self._on_event(record, rows)

    def _on_commit(self, record: Record, rows: FoldedRows) -> None:
        """Take a commit of offsets. These are most events, and only one table has rows for them."""
        self._begin_with_snapshot(record.at_ms)
        event, group = decode_event(record), self._group
        assert isinstance(event, OffsetsCommitted)
        self._commits.on_commit(record, event, group.committed_offsets, self._unfolded.offsets, rows)
        if group.pending_transactional_offsets:
            # The number of each commit decides which offsets of open transactions it supersedes.
            self._group = evolve(group, event)
        else:
            self._unfolded.add(event)
        self._last = record

    def _on_event(self, record: Record, rows: FoldedRows) -> None:
        """Fold an event, and pass it to the builders of tables. An error of a builder counts as one of the fold."""
        self._begin_with_snapshot(record.at_ms)
        event, before = decode_event(record), self._unfolded.folded(self._group)
        self._group = before
        after = evolve(before, event)
        last = self._last_of.get(None)
        common = self._transition(None, record, event, before, after)
        is_classic, stays_classic = before.consumer is None, after.consumer is None
        for each in (is_classic,) if is_classic is stays_classic else (is_classic, stays_classic):
            kind = GroupKind.CLASSIC if each else GroupKind.CONSUMER
            transition = common
            if self._last_of.get(kind) is last:
                self._last_of[kind] = record
            else:
                transition = self._transition(kind, record, event, before, after)
            for builder in self._classic_builders if each else self._consumer_builders:
                builder.on_event(transition, rows)
        for builder in self._common_builders:
            builder.on_event(common, rows)
        self._group, self._last = after, record

    def _begin_with_snapshot(self, at_ms: int) -> None:
        """Give the builders the snapshot with which the history begins, if there is one."""
        if self._snapshot is not None:
            self._owners[self._snapshot.kind].on_snapshot(self._snapshot, at_ms)
            self._lifetimes.on_snapshot(self._snapshot, at_ms)
            self._snapshot = None

    def _transition(
        self, kind: GroupKind | None, record: Record, event: Event, before: Group, after: Group
    ) -> Transition:
        """The event as the builders for a kind of group get it (None: those for both kinds).

        `begins_command` is True if they have got no event of its command before.
        """
        last = self._last_of.get(kind)
        self._last_of[kind] = record
        begins_command = last is None or not is_same_command(last, record)
        return Transition(record, event, before, after, begins_command, event.at_ms)


def is_same_command(record: Record, following: Record) -> bool:
    """Whether two records that follow each other are of one command: they have the same cause and time."""
    return (record.cause, record.at_ms) == (following.cause, following.at_ms)
