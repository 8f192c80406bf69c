"""What a run counts and does not judge: it costs something, and it happens in the best of groups."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from regroup.coordinator.group import Group
from regroup.lab.checker.acknowledgements import partitions_of
from regroup.protocol.consumer.subscription import TopicPartition


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one run. Prints as a line of words."""

    processed: int = 0
    processed_twice: int = 0
    """Every processing of a record after its first."""
    offsets_went_back: int = 0
    """Accepted commits of a partition below the offset that stood there."""
    ownerless_s: float = 0.0
    """Seconds, over all partitions, in which nobody owned a partition that had had an owner."""
    moved_for_nothing: int = 0
    """See `moved_for_nothing` below."""
    rebalances: int = 0
    """Assignments that were committed."""
    expulsions: int = 0
    exchanges: int = 0
    events: int = 0

    def __str__(self) -> str:
        shown = {field.name.replace("_", " "): getattr(self, field.name) for field in fields(self)}
        shown["ownerless s"] = f"{self.ownerless_s:.1f}"
        return ", ".join(f"{name} {value}" for name, value in shown.items())

    def __add__(self, other: "Counts") -> "Counts":
        """Of several runs."""
        sums = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return replace(self, **sums)


def shares_of(group: Group) -> dict[str, frozenset[TopicPartition]]:
    """Who owns what. A static member is known by its instance id, and so stays the same when it comes back."""
    return {
        member.instance_id or name: frozenset(partitions_of(member.assignment))
        for name, member in group.members.items()
    }


def moved_for_nothing(
    before: Mapping[str, frozenset[TopicPartition]], after: Mapping[str, frozenset[TopicPartition]]
) -> int:
    """Partitions that members gave up although they stayed and balance did not ask for it.

    Of two assignments in a row: a member that is in both and has as many partitions as before, or more, need not have
    given up any; one that has three fewer had to give up three. What it gave up beyond that, and somebody else has
    now, was moved for nothing.
    """
    taken = frozenset[TopicPartition]().union(*after.values())
    moved = 0
    for name, had in before.items():
        if name in after:
            gave_up = len((had - after[name]) & taken)
            moved += max(0, gave_up - max(0, len(had) - len(after[name])))
    return moved
