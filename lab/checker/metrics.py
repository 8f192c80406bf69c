"""Counts of one run, such as rebalances and records processed twice.

They are costs and not violations: they occur in correct groups, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from regroup.coordinator.group import Group
from regroup.protocol.consumer.subscription import TopicPartition, assigned_partitions

__all__ = ["Counts"]


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one run. Prints as one line."""

    processed: int = 0
    """How many times a member processed a record, each repetition included."""
    processed_twice: int = 0
    """How many times a record was processed again after its first time."""
    offsets_went_back: int = 0
    """How many accepted commits set the offset of a partition lower than it was."""
    ownerless_s: float = 0.0
    """Seconds, summed over all partitions, in which a partition that had had an owner had none."""
    needless_moves: int = 0
    """How many partitions moved from one member to another although balance did not require it."""
    rebalances: int = 0
    """How many assignments of a leader were committed."""
    removals: int = 0
    """How many members were removed because a timeout expired or another process replaced them."""
    exchanges: int = 0
    """How many commands coordinators handled."""
    events: int = 0
    """How many events were stored."""

    def __str__(self) -> str:
        shown = {field.name.replace("_", " "): getattr(self, field.name) for field in fields(self)}
        shown["ownerless s"] = f"{self.ownerless_s:.1f}"
        return ", ".join(f"{name} {value}" for name, value in shown.items())


def partitions_by_member(group: Group) -> dict[str, frozenset[TopicPartition]]:
    """Each member's assigned partitions, by its member id.

    For a static member it is the instance id, which stays the same when it restarts.
    """
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
