"""Builds the table `target_members`: each member of each target assignment, with its way to its share."""

from collections.abc import Iterator, Mapping
from typing import Any

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.migration.events import GroupDowngraded, GroupUpgraded
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ReconciliationState, every_partition
from regroup.coordinator.group import MemberId
from regroup.pipeline.gold.builders.owners import named_partitions
from regroup.pipeline.gold.builders.table_builder import TableBuilder, Transition, partition_names
from regroup.pipeline.gold.folded_rows import FoldedRows


class TargetMembers(TableBuilder):
    """Builds the table `target_members` for one group. `topic_names` has the names of topics by topic id."""

    def __init__(self, topic_names: Mapping[str, str]) -> None:
        self._topic_names = topic_names
        self._open: dict[MemberId, dict[str, Any]] = {}
        """The rows of the present target, which are not complete yet, by member id."""
        self._target: dict[str, Any] = {}
        """The columns that all rows of the present target share; empty until an event says what it is."""

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        event, after, at_ms = transition.event, transition.after, transition.at_ms
        match event:
            case ce.TargetAssigned() | GroupUpgraded():
                self._end_all(rows, "superseded", at_ms)
                self._begin(transition, event)
            case ce.MemberReconciled() if event.member_id in self._open:
                self._reconcile(consumer_of(after).members[event.member_id], at_ms)
            case ce.StaticConsumerReplaced() if self._target:  # a snapshot does not say which event assigned its target
                self._end(rows, event.replaced_member_id, "replaced", at_ms)
                self._open_row(consumer_of(after), consumer_of(after).members[event.member_id])
            case e.MemberLeft():
                self._end(rows, event.member_id, "left", at_ms)
            case e.MemberRemoved():
                self._end(rows, event.member_id, "removed", at_ms)
            case GroupDowngraded() | e.GroupDeleted() | ce.ConsumerGroupEnded():
                self._end_all(rows, "ended", at_ms)

    def on_end(self, rows: FoldedRows) -> None:
        self._end_all(rows, "open", None)

    def _begin(self, transition: Transition, event: ce.TargetAssigned | GroupUpgraded) -> None:
        consumer, record = consumer_of(transition.after), transition.record
        self._target = {
            "position": record.position,
            "coordinator_epoch": record.coordinator_epoch,
            "assignment_epoch": consumer.assignment_epoch,
            "target_ms": transition.at_ms,
            "assignor": event.assignor or None if isinstance(event, ce.TargetAssigned) else None,
        }
        for member in consumer.members.values():
            self._open_row(consumer, member)
            if member.has_reached(consumer.assignment_epoch):
                self._reconcile(member, transition.at_ms)

    def _open_row(self, consumer: ConsumerGroup, member: ConsumerMember) -> None:
        target = every_partition(consumer.targets.get(member.member_id, {}))
        self._open[member.member_id] = self._target | {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "is_classic": member.is_classic,
            "epoch_before": member.epoch,
            "target": self._names(target),
        }

    def _reconcile(self, member: ConsumerMember, at_ms: int) -> None:
        """Note in a member's row when it was asked to give up partitions, reached the target's epoch, and was done."""
        row = self._open[member.member_id]
        if member.state is ReconciliationState.UNREVOKED_PARTITIONS:
            row.setdefault("asked_ms", at_ms)
            row["revoked"] = self._names(every_partition(member.pending_revocation))
        if member.epoch == row["assignment_epoch"]:
            row.setdefault("reached_ms", at_ms)
            if member.state is ReconciliationState.STABLE:
                row.setdefault("complete_ms", at_ms)

    def _end(self, rows: FoldedRows, member_id: MemberId, outcome: str, at_ms: int | None) -> None:
        row = self._open.pop(member_id, None)
        if row is not None:
            outcome = "completed" if "complete_ms" in row else outcome
            rows.add("target_members", row | {"outcome": outcome, "ended_ms": at_ms})

    def _end_all(self, rows: FoldedRows, outcome: str, at_ms: int | None) -> None:
        for member_id in [*self._open]:
            self._end(rows, member_id, outcome, at_ms)

    def _names(self, partitions: Iterator[tuple[str, int]]) -> list[str]:
        return partition_names(named_partitions(partitions, self._topic_names))
