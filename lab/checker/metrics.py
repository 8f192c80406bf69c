"""Counts of one run, such as rebalances and records processed twice.

They are costs and not violations: they occur in correct groups, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from regroup.coordinator.commands import OffsetCommit
from regroup.coordinator.group import Group
from regroup.members.runtime.workload import RecordLedger
from regroup.protocol.consumer.subscription import TopicPartition, assigned_partitions
from regroup.storage.records import NewRecord

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


class RunCounter:
    """Counts what happens in the groups of one run."""

    def __init__(self) -> None:
        self._exchanges = self._events = self._rebalances = self._removals = 0
        self._offsets_went_back = self._needless_moves = 0
        self._assignments: dict[str, dict[str, frozenset[TopicPartition]]] = {}
        """By group id, the last committed assignment: the partitions of each member."""

    def next_exchange_number(self) -> int:
        """Return the number of an exchange that begins: 1, 2, 3 … over all coordinators of the run."""
        self._exchanges += 1
        return self._exchanges

    def on_stored(self, records: Sequence[NewRecord]) -> None:
        """Count the events of records that the store has appended."""
        self._events += len(records)
        for record in records:
            if record.type == "assignment-committed":
                self._rebalances += 1
            elif record.type == "member-removed":
                self._removals += 1

    def on_assignment(self, group: Group) -> None:
        """Count the needless moves of partitions in a group that has just become Stable with a new assignment."""
        assignment = partitions_by_member(group)
        self._needless_moves += needless_moves(self._assignments.get(group.group_id, {}), assignment)
        self._assignments[group.group_id] = assignment

    def on_group_deleted(self, group_id: str) -> None:
        """Drop the last assignment of a deleted group: one of the same name begins without any."""
        self._assignments.pop(group_id, None)

    def on_offset_commit(self, before: Group, command: OffsetCommit) -> None:
        """Count the offsets of an accepted commit that are lower than those committed `before` it."""
        for each in command.offsets:
            committed = before.committed_offset(each.topic, each.partition)
            if committed is not None and each.offset < committed.offset:
                self._offsets_went_back += 1

    def counts(self, ledgers: Iterable[RecordLedger], ownerless_s: float) -> Counts:
        """The counts until now: with those of records from the ledgers of the groups, and with these seconds."""
        records = [ledger.counts for ledger in ledgers]
        return Counts(
            processed=sum(each.processed for each in records),
            processed_twice=sum(each.duplicates for each in records),
            offsets_went_back=self._offsets_went_back,
            ownerless_s=ownerless_s,
            needless_moves=self._needless_moves,
            rebalances=self._rebalances,
            removals=self._removals,
            exchanges=self._exchanges,
            events=self._events,
        )
