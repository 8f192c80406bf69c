"""What responses have acknowledged to clients in a run: offsets, assignments and leaders.

It is what a coordinator must still have after a crash.

    acknowledgements = Acknowledgements()
    acknowledgements.on_commit_response(exchange, response)      # a response leaves the coordinator
    acknowledgements.on_group_change(exchange)                   # a command has changed its group
    acknowledgements.lost_offsets(loaded)                        # acknowledged offsets that a load does not bring back

All of it comes from commands and responses, none of it from stored events.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, MemberId
from regroup.coordinator.layered_mapping import added_keys
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.consumer.primitives import TopicPartition

OffsetKey: TypeAlias = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class AcknowledgedOffset:
    """The last acknowledged offset of a partition, and the commits after it that have no response yet.

    After a crash the store may hold any of them.
    """

    offset: int | None = None
    unacknowledged: list[tuple[int, int]] = field(default_factory=list)
    """Exchange number and offset of each later commit whose response has not left, or was an error."""

    def allows(self, offset: int | None) -> bool:
        """Whether a coordinator that loads this offset (None: no offset) has lost nothing: True if no offset was
        acknowledged, or if it is the acknowledged one or that of a later commit without a response."""
        return self.offset is None or offset in (self.offset, *(each for _, each in self.unacknowledged))


@dataclass(slots=True)
class AcknowledgedAssignments:
    """The assignments that members received in the last generation in which any member received one."""

    generation_id: int
    assignments: dict[MemberId, bytes] = field(default_factory=dict)
    instance_ids: dict[MemberId, str] = field(default_factory=dict)
    """The group instance id of each static member that received an assignment, by member id."""


@dataclass(slots=True)
class ReportedGeneration:
    """One generation in one coordinator epoch, as responses have described it: its leader, and the owners of
    partitions."""

    coordinator_epoch: int
    generation_id: int
    leader_id: MemberId | None = None
    owners: dict[TopicPartition, MemberId] = field(default_factory=dict)


class Acknowledgements:
    """Collects, for all groups of one run, what successful responses have confirmed to clients.

    These are committed offsets and assignments, which a later load of the group must find; and leaders and owners.
    """

    def __init__(self) -> None:
        self.offsets: dict[str, dict[OffsetKey, AcknowledgedOffset]] = {}
        self.deleted_offsets: dict[int, set[OffsetKey]] = {}
        """Of OffsetCommits whose response has not left, by exchange number: those that were deleted meanwhile."""
        self.assignments: dict[str, AcknowledgedAssignments] = {}
        self.generations: dict[str, ReportedGeneration] = {}
        self.removed_by: dict[MemberId, int] = {}
        """By member id, the number of the exchange that removed the member: commits before it may be answered later."""
        self.removed_members: dict[MemberId, int] = {}
        """By member id, the coordinator epoch in which the member was removed, replaced or not found by a load."""

    # Responses

    def on_commit(self, exchange: ObservedExchange, command: c.OffsetCommit) -> None:
        """Note the offsets of an OffsetCommit whose response has not left yet: a load may find them, and need not."""
        offsets = self.offsets.setdefault(command.group_id, {})
        for each in command.offsets:
            known = offsets.setdefault((each.topic, each.partition), AcknowledgedOffset())
            known.unacknowledged.append((exchange.exchange_number, each.offset))

    def on_commit_response(self, exchange: ObservedExchange, response: Any) -> None:
        """Note each offset that the response to an OffsetCommit confirms: from now on every load has to find it, or a
        later one.

        An offset that is refused stays possible, since the store may have it: its coordinator may have crashed. One
        that was deleted before its response left, by itself or with its group, is not expected any more.
        """
        command = exchange.command
        assert isinstance(command, c.OffsetCommit)
        self.deleted_offsets.pop(exchange.exchange_number, None)
        offsets = self.offsets.setdefault(command.group_id, {})
        codes = {(t.name, row.partition_index): row.error_code for t in response.topics for row in t.partitions}
        for each in command.offsets:
            known = offsets.get((each.topic, each.partition))
            if known is None or exchange.exchange_number not in dict(known.unacknowledged):
                continue
            if codes[each.topic, each.partition] == 0:
                known.offset = each.offset
                known.unacknowledged = [later for later in known.unacknowledged if later[0] > exchange.exchange_number]

    def on_sync_response(self, exchange: ObservedExchange, response: Any) -> None:
        """Note the assignment in a successful SyncGroup response: a load of the same generation has to find it."""
        command = exchange.command
        assert isinstance(command, c.SyncGroup)
        if response.error_code != 0 or exchange.before.consumer is not None:
            return  # what a member of a group of the consumer protocol has got is not what the group is stored with
        known = self.assignments.get(command.group_id)
        if known is None or known.generation_id != command.generation_id:
            known = self.assignments[command.group_id] = AcknowledgedAssignments(command.generation_id)
        known.assignments[command.member_id] = response.assignment
        member = exchange.before.members.get(command.member_id)
        if member and member.instance_id is not None:
            known.instance_ids[command.member_id] = member.instance_id

    def reported_generation(self, exchange: ObservedExchange, generation_id: int) -> ReportedGeneration:
        """What responses have said so far of this generation in the coordinator epoch of the exchange; empty at the
        first call."""
        known = self.generations.get(exchange.group_id)
        key = (exchange.coordinator_epoch, generation_id)
        if known is None or (known.coordinator_epoch, known.generation_id) != key:
            known = self.generations[exchange.group_id] = ReportedGeneration(*key)
        return known

    # Changes of groups

    def on_group_change(self, exchange: ObservedExchange) -> None:
        """Compare a group before and after a command, and adjust what a load has to find.

        Removed members are noted. What was confirmed to members of a group is dropped when the group is deleted; its
        assignments are dropped when it changes to the consumer protocol.
        """
        before, after = exchange.before, exchange.after
        if before.members is not after.members or before.consumer is not after.consumer:
            self._note_removed_members(before.members_of_any_kind, after.members_of_any_kind, exchange)
        if not after.exists:
            self.offsets.pop(after.group_id, None)
            self.assignments.pop(after.group_id, None)
            self.generations.pop(after.group_id, None)
            return
        if after.consumer is not None:  # its assignments are no longer those of a generation
            self.assignments.pop(after.group_id, None)
            self.generations.pop(after.group_id, None)
        if before.committed_offsets is not after.committed_offsets:
            self._note_other_offset_changes(exchange)

    def _note_removed_members(
        self, before: Mapping[MemberId, object], after: Mapping[MemberId, object], exchange: ObservedExchange
    ) -> None:
        removed, added = added_keys(after, before), added_keys(before, after)
        if not removed and not added:
            return
        for member_id in removed:
            self.removed_members[member_id] = exchange.coordinator_epoch
            self.removed_by[member_id] = exchange.exchange_number
        # Thousands may be gone from a small group that rebalances without end, or few from one of thousands.
        gone = self.removed_members
        fewer, others = (after, gone) if len(after) < len(gone) else (gone, after)
        for member_id in [each for each in fewer if each in others]:
            del gone[member_id]
            self.removed_by.pop(member_id, None)

    def _note_other_offset_changes(self, exchange: ObservedExchange) -> None:
        """Note offsets of a group that a command other than OffsetCommit has changed.

        A load need not find offsets that were deleted or have expired; it may find those of a committed transaction.
        """
        offsets = self.offsets.get(exchange.group_id)
        if offsets is None:
            return
        match exchange.command:
            case c.OffsetDelete() | c.ExpireOffsets() | c.DeleteTopicOffsets():
                for key in [key for key in offsets if exchange.after.committed_offset(*key) is None]:
                    for exchange_number, _ in offsets.pop(key).unacknowledged:
                        self.deleted_offsets.setdefault(exchange_number, set()).add(key)
            case c.EndTransaction():
                for key, known in offsets.items():
                    committed = exchange.after.committed_offset(*key)
                    if committed is not None and committed != exchange.before.committed_offset(*key):
                        known.unacknowledged.append((exchange.exchange_number, committed.offset))

    # Coordinator loads

    def lost_offsets(self, loaded: Group) -> Iterator[str]:
        """Describe each offset whose commit was confirmed to a client and which this group, as it was loaded, does not
        have."""
        for (topic, partition), known in self.offsets.get(loaded.group_id, {}).items():
            committed = loaded.committed_offset(topic, partition)
            found = None if committed is None else committed.offset
            if not known.allows(found):
                yield f"{topic}-{partition}: {known.offset} was acknowledged, {found} was loaded"

    def lost_assignments(self, loaded: Group) -> Iterator[str]:
        """Describe each assignment that a SyncGroup response has carried and which this group, as it was loaded, does
        not have.

        Nothing is described if the loaded group has a later generation than that of the responses.
        """
        known = self.assignments.get(loaded.group_id)
        if known is None or loaded.generation_id > known.generation_id:
            return
        if loaded.generation_id < known.generation_id:
            yield (f"generation {known.generation_id} had assignments, generation {loaded.generation_id} was loaded")
            return
        for member_id, assignment in known.assignments.items():
            member = loaded.members.get(member_id)
            if member is None and known.instance_ids.get(member_id) in loaded.static_members:
                continue  # the static member was replaced by another process
            if member is None or member.assignment != assignment:
                yield f"the assignment of {member_id} in generation {loaded.generation_id}"
