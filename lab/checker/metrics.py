"""Counts of a run that are not checked: they are costs, and they occur in correct groups, too."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from regroup.coordinator.group import Group
from regroup.protocol.consumer.subscription import TopicPartition, assigned_partitions

__all__ = ["Counts"]


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one run. Prints as one line."""

    processed: int = 0
    """Records processed by members, each time counted."""
    processed_twice: int = 0
    """Every processing of a record after its first."""
    offsets_went_back: int = 0
    """Accepted commits of a partition below the offset that was committed before."""
    ownerless_s: float = 0.0
    """Seconds, summed over all partitions, in which a partition that had had an owner had none."""
    needless_moves: int = 0
    """Partitions that moved from one member to another although balance did not require it."""
    rebalances: int = 0
    """Assignments that were committed."""
    removals: int = 0
    """Members removed because a timeout expired or another process replaced them."""
    exchanges: int = 0
    """Commands to coordinators."""
    events: int = 0
    """Stored events."""

    def __str__(self) -> str:
        shown = {field.name.replace("_", " "): getattr(self, field.name) for field in fields(self)}
        shown["ownerless s"] = f"{self.ownerless_s:.1f}"
        return ", ".join(f"{name} {value}" for name, value in shown.items())


def partitions_by_member(group: Group) -> dict[str, frozenset[TopicPartition]]:
    """Each member's assigned partitions. A static member goes by its instance id, so a restart does not change it."""
    return {
        member.instance_id or member_id: frozenset(assigned_partitions(member.assignment))
        for member_id, member in group.members.items()
    }


def needless_moves(
    before: Mapping[str, frozenset[TopicPartition]], after: Mapping[str, frozenset[TopicPartition]]
) -> int:
    """Count partitions that moved between two assignments although balance did not require it.

    A member that is in both and has as many partitions as before, or more, need not have lost any; one that has three
    fewer had to lose three. What it lost beyond that, and another member has now, is a needless move.
    """
    assigned = frozenset[TopicPartition]().union(*after.values())
    moves = 0
    for member, had in before.items():
        if member in after:
            lost = len((had - after[member]) & assigned)
            moves += max(0, lost - max(0, len(had) - len(after[member])))
    return moves
