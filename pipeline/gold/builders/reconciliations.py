"""Builds the table `reconciliations`: a row for each group epoch, from its cause until every member has reached it.

No phase of a reconciliation stops the group: each member goes on, and gives up or gets only what changes for it.
"""

from collections import Counter
from typing import Any

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration.events import GroupDowngraded
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerGroupState, ReconciliationState
from regroup.pipeline.gold.builders.member_changes import MemberChanges
from regroup.pipeline.gold.builders.ownership import Ownership
from regroup.pipeline.gold.builders.table_builder import TableBuilder, Transition
from regroup.pipeline.gold.folded_rows import FoldedRows


def trigger_name(transition: Transition) -> str | None:
    """The name of an event as trigger of a new group epoch, such as `joined`; None if it is no trigger."""
    match transition.event:
        case ce.MemberSubscribed(member_id=member_id):
            return "subscribed" if member_id in transition.before.member_ids else "joined"
        case e.MemberLeft():
            return "left"
        case e.MemberRemoved():
            return "removed"
        case ce.StaticConsumerReplaced():
            return "replaced"
        case _:
            return None


class Reconciliations(TableBuilder):
    """Builds the table `reconciliations` for one group. Each event must be passed here before `ownership` gets it."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._open: dict[str, Any] | None = None
        self._changes = MemberChanges()
        self._steps = 0
        self._revoking: Counter[str] = Counter()
        """How many partitions each member was asked to give up, by its member id."""
        self._last: Transition | None = None
        """The last event. Whether it has ended the row is asked when its command is over and the owners are known."""

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        if transition.begins_command:
            self._end_of_command(rows)
        self._last = transition
        self._changes.on_event(transition, trigger_name(transition))
        event, at_ms = transition.event, transition.at_ms
        match event:
            case ce.GroupEpochBumped():
                # The present command causes this epoch, so its changes do not belong to the one before.
                self._close(rows, "superseded", at_ms, self._changes.members_before, with_command=False)
                self._open = self._begin(transition, event)
            case GroupDowngraded() | e.GroupDeleted() | ce.ConsumerGroupEnded():
                self._close(rows, "ended", at_ms, len(transition.before.member_ids))
            case ce.TargetAssigned() if self._open and event.assignment_epoch == self._open["group_epoch"]:
                self._open |= {"target_ms": at_ms, "assignor": event.assignor or None}
            case ce.MemberReconciled() if self._open:
                self._steps += 1
                self._count_revocation(event, transition.before.consumer)

    def on_end(self, rows: FoldedRows) -> None:
        self._end_of_command(rows)
        self._close(rows, "running", None, None)

    def _end_of_command(self, rows: FoldedRows) -> None:
        """Add the row of the open reconciliation if the events of the last command have completed it."""
        consumer = self._last.after.consumer if self._last else None
        if self._open is None or self._last is None or consumer is None:
            return
        if not consumer.members and consumer.assignment_epoch == consumer.group_epoch:
            self._close(rows, "emptied", self._last.at_ms, 0)
        elif consumer.state is ConsumerGroupState.STABLE:
            self._close(rows, "completed", self._last.at_ms, len(consumer.members))

    def _begin(self, transition: Transition, event: ce.GroupEpochBumped) -> dict[str, Any]:
        trigger, record = self._changes.trigger, transition.record
        self._ownership.trigger = self._changes.trigger_name or "topics"
        self._ownership.group_epoch = event.group_epoch
        self._ownership.window.begin(transition.at_ms)
        self._steps = 0
        self._revoking.clear()
        last_seen_ms = trigger.last_seen_ms if isinstance(trigger, e.MemberRemoved) else None
        members = transition.after.consumer.members if transition.after.consumer else {}
        return {
            "position": record.position,
            "coordinator_epoch": record.coordinator_epoch,
            "group_epoch": event.group_epoch,
            "trigger": self._ownership.trigger,
            "trigger_member_id": getattr(trigger, "member_id", None),
            "reason": event.reason,
            "cause": record.cause.decode() if record.cause else None,
            "since_last_seen_ms": None if last_seen_ms is None else transition.at_ms - last_seen_ms,
            "bumped_ms": transition.at_ms,
            "members_before": self._changes.members_before,
            "classic_members": sum(member.is_classic for member in members.values()),
        }

    def _count_revocation(self, event: ce.MemberReconciled, before: ConsumerGroup | None) -> None:
        if event.state is ReconciliationState.UNREVOKED_PARTITIONS and before is not None:
            pending = before.members[event.member_id].pending_revocation
            former = {(topic_id, index) for topic_id, epochs in pending.items() for index in epochs}
            asked = {(topic_id, index) for topic_id, epochs in event.pending_revocation.items() for index in epochs}
            self._revoking[event.member_id] += len(asked - former)

    def _close(
        self, rows: FoldedRows, outcome: str, at_ms: int | None, members: int | None, *, with_command: bool = True
    ) -> None:
        """Add the row of the open reconciliation with this outcome; nothing if none is open."""
        if self._open is None:
            return
        window = self._ownership.window
        end = {"outcome": outcome, "ended_ms": at_ms, "members_after": members}
        moved = Counter(window.movements.values())
        owned = self._ownership.owned()
        ownerless = () if at_ms is None else window.ownerless_ms(at_ms).values()
        rows.add(
            "reconciliations",
            self._open
            | end
            | self._changes.take(with_command=with_command)
            | {
                "steps": self._steps,
                "revoking_members": len(+self._revoking),
                "revoked": self._revoking.total(),
                "partitions": len(owned),
                "kept": sum(partition not in window.movements for partition in owned),
                "ownerless_partitions": len(ownerless),
                "ownerless_ms": sum(ownerless) if at_ms is not None else None,
                "longest_ownerless_ms": max(ownerless, default=0) if at_ms is not None else None,
            }
            | {each: moved[each] for each in ("moved", "revoked_and_returned", "new")},
        )
        self._open = None
