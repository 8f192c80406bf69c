"""Builds the table `rebalances`: a row for each rebalance, from its trigger to the movement of its partitions."""

from typing import Any, Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer.migration.events import GroupDowngraded, GroupUpgraded
from regroup.coordinator.group import Group
from regroup.pipeline.gold.builders.member_changes import MemberChanges
from regroup.pipeline.gold.builders.ownership import Ownership
from regroup.pipeline.gold.builders.table_builder import TableBuilder, Transition, member_identity
from regroup.pipeline.gold.folded_rows import FoldedRows
from regroup.protocol.consumer.subscription import assigned_partitions

TRIGGERS: Final[dict[type[e.Event], str]] = {
    e.MemberJoined: "joined",
    e.MemberRejoined: "rejoined",
    e.MemberLeft: "left",
    e.MemberRemoved: "removed",
    e.StaticMemberReplaced: "replaced",
    e.CoordinatorLoaded: "loaded",
    e.AppendFailed: "append-failed",
    GroupDowngraded: "downgraded",
}
"""The events that can trigger a rebalance, with the name of the trigger.

If a command has several of them before the rebalance starts, the last one counts.
"""


FOLLOWED: Final = frozenset(
    {
        e.RebalanceStarted,
        e.GenerationStarted,
        e.GroupEmptied,
        e.AssignmentCommitted,
        e.CoordinatorLoaded,
        e.GroupDeleted,
        GroupUpgraded,
    }
)


class Rebalances(TableBuilder):
    """Builds the table `rebalances` for one group. Each event must be passed here before `ownership` gets it."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._open: dict[str, Any] | None = None
        self._changes = MemberChanges()

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        self._changes.on_event(transition, TRIGGERS.get(type(transition.event)))
        event = transition.event
        if type(event) not in FOLLOWED:
            return
        match event:
            case e.RebalanceStarted():
                # The present command starts this rebalance, so its changes do not belong to the one before.
                self._close(rows, "superseded", with_command=False)
                self._open = self._begin(transition, event)
            case e.GenerationStarted() if self._open:
                self._open |= {
                    "join_end_ms": transition.at_ms,
                    "generation_id": event.generation_id,
                    "leader_id": event.leader_id,
                    "protocol_name": event.protocol_name,
                    "members_after": len(transition.after.members),
                }
            case e.GroupEmptied() if self._open:
                self._open |= {
                    "join_end_ms": transition.at_ms,
                    "generation_id": event.generation_id,
                    "members_after": 0,
                }
                self._close(rows, "emptied")
            case e.AssignmentCommitted() if self._open:
                self._open |= {"sync_end_ms": transition.at_ms, **self._movements(transition.after)}
                self._close(rows, "completed")
            case e.CoordinatorLoaded() | e.GroupDeleted():
                self._close(rows, "aborted")
            case GroupUpgraded():
                self._close(rows, "upgraded")

    def on_end(self, rows: FoldedRows) -> None:
        self._close(rows, "running")

    def _begin(self, transition: Transition, event: e.RebalanceStarted) -> dict[str, Any]:
        trigger, record = self._changes.trigger, transition.record
        self._ownership.trigger, self._ownership.group_epoch = self._changes.trigger_name or "other", None
        last_seen_ms = trigger.last_seen_ms if isinstance(trigger, e.MemberRemoved) else None
        return {
            "position": record.position,
            "coordinator_epoch": record.coordinator_epoch,
            "trigger": self._ownership.trigger,
            "trigger_member_id": getattr(trigger, "member_id", None),
            "reason": event.reason,
            "cause": record.cause.decode() if record.cause else None,
            "is_initial": event.is_initial,
            "since_last_seen_ms": None if last_seen_ms is None else transition.at_ms - last_seen_ms,
            "started_ms": transition.at_ms,
            "members_before": self._changes.members_before,
        }

    def _close(self, rows: FoldedRows, outcome: str, *, with_command: bool = True) -> None:
        """Add the row of the open rebalance with this outcome; nothing if no rebalance is open."""
        if self._open is not None:
            counts = self._changes.take(with_command=with_command)
            rows.add("rebalances", self._open | {"outcome": outcome} | counts)
            self._open = None

    def _movements(self, group: Group) -> dict[str, int]:
        """Numbers of assigned partitions: all; moved; kept; revoked and returned; and new, without an owner before."""
        counts = dict.fromkeys(("partitions", "moved", "kept", "revoked_and_returned", "new"), 0)
        for member_id, member in group.members.items():
            for partition in assigned_partitions(member.assignment):
                last_owner = self._ownership.last_owner.get(partition)
                counts["partitions"] += 1
                if last_owner is None:
                    counts["new"] += 1
                elif last_owner != member_identity(member):
                    counts["moved"] += 1
                elif self._ownership.owns(member_id, partition):
                    counts["kept"] += 1
                else:
                    counts["revoked_and_returned"] += 1
        return counts
