"""Invariants of well-behaved members, and the checker of them: which partitions they read, which records they process.

members = MemberChecker(acknowledgements.removed_members)
members.add_member("anna", group_id="payments")
members.on_member_change("anna", PartitionsAssigned(...), at_ms)      # the violations that this change causes
members.ledger("payments")                                           # the ledger of a group
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from regroup.coordinator.group import OffsetsByPartition
from regroup.lab.checker.members.records.ledgers import GroupLedger
from regroup.lab.checker.members.records.processed_records import COUNTED_AS_IT_WAS
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerClosed,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.protocol.consumer.subscription import TopicPartition

STICKY_PROTOCOL: Final = "sticky"
COOPERATIVE_PROTOCOL: Final = "cooperative-sticky"

NO_TWO_READERS: Final = (
    "A cooperative member never reads a partition that another still owns, unless the other was removed, or is static "
    "and missed the join phase (KIP-345), and does not know it yet."
)
NEW_ID_OWNS_NOTHING: Final = (
    "A member that joins under a new member id has given up what it owned under the former one."
)
CLOSED_OWNS_NOTHING: Final = (
    "A member that is closed has reported by then that it gives up, or has lost, all that it owned."
)
ONLY_OWNED_PARTITIONS: Final = "A member processes records only of partitions that it owns."
COMMIT_NOT_AHEAD: Final = "A committed offset is never ahead of the processed records."
NO_RECORD_SKIPPED: Final = "No record is skipped."


class MemberViolation(NamedTuple):
    """An invariant of members that does not hold: its sentence, and what was found."""

    sentence: str
    detail: str


@dataclass(slots=True)
class ObservedMember:
    """A member as the checker of members sees it: its settings that matter here, and what its consumer has reported."""

    group_id: str
    is_well_behaved: bool
    has_sound_assignor: bool
    member_id: str = ""
    protocol_name: str = ""
    owned_partitions: dict[TopicPartition, None] = field(default_factory=dict)
    generation_id: int = -1
    doubtful_partitions: set[TopicPartition] = field(default_factory=set)
    """Those that a leader with an unsound assignor has assigned to it."""


class MemberChecker:
    """Checks all members of a run.

    `removed_members` are the member ids that a coordinator has removed, `absent_members` those of static members that
    have not joined the present generation: its leader knows what they owned when they last joined, and nothing newer.
    """

    def __init__(self, removed_members: Container[str], absent_members: Container[str] = frozenset()) -> None:
        self.by_name: dict[str, ObservedMember] = {}
        self.ledgers: dict[str, GroupLedger] = {}
        self._removed_members, self._absent_members = removed_members, absent_members
        self._unsound_generations: set[tuple[str, int]] = set()
        """The group and generation ids whose assignment an unsound assignor has made, or one that knew too little."""
        self._owners: dict[tuple[str, TopicPartition], dict[str, None]] = {}
        self._unowned_since_ms: dict[tuple[str, TopicPartition], int] = {}
        self._unowned_ms = 0
        self._deleted_topics: set[str] = set()
        """Topics that do not exist at present. Members give up their partitions later."""
        self.unowned_partitions: dict[int, int] = {}
        """By the time of each change of owners, in ms since the run began, how many partitions have lost theirs."""

    def add_member(
        self, name: str, group_id: str, *, is_well_behaved: bool = True, has_sound_assignor: bool = True
    ) -> None:
        """Begin to check a member, or its new process if it took part before.

        A member that is not well-behaved is followed and not checked. Where a member without a sound assignor leads,
        the owners of partitions are not checked.
        """
        self.by_name[name] = ObservedMember(group_id, is_well_behaved, has_sound_assignor)

    def ledger(self, group_id: str) -> GroupLedger:
        """The ledger of a group, made at the first call."""
        return self.ledgers.setdefault(group_id, GroupLedger())

    # Ownership

    def on_unsound_assignment(self, group_id: str, generation_id: int) -> None:
        """Stop checking who owns the partitions that this generation's leader assigns."""
        self._unsound_generations.add((group_id, generation_id))

    def is_assigned_unsoundly(self, group_id: str, generation_id: int) -> bool:
        """Whether the owners of this generation's partitions are not checked."""
        return (group_id, generation_id) in self._unsound_generations

    def on_member_change(self, name: str, change: ConsumerChange, at_ms: int) -> Iterator[MemberViolation]:
        """Note that a member has joined, left, or got or given up partitions; yields the violations that this
        causes."""
        member = self.by_name[name]
        match change:
            case JoinedGroup():
                if change.member_id != member.member_id:
                    yield from self._on_new_member_id(name, member, at_ms)
                member.member_id, member.protocol_name = change.member_id, change.protocol_name or ""
                member.generation_id = change.generation_id
                if change.is_leader and not member.has_sound_assignor:
                    self.on_unsound_assignment(member.group_id, change.generation_id)
            case PartitionsAssigned(partitions):
                for partition in partitions:
                    yield from self._assign(name, member, partition, at_ms)
            case PartitionsRevoked(partitions) | PartitionsLost(partitions):
                self._unassign(name, member, partitions, at_ms)
            case ConsumerClosed():
                if member.owned_partitions and member.is_well_behaved:
                    owned = ", ".join(map(str, member.owned_partitions))
                    yield MemberViolation(CLOSED_OWNS_NOTHING, f"{name} still owns {owned}")
                self.on_member_stop(name, at_ms)

    def _on_new_member_id(self, name: str, member: ObservedMember, at_ms: int) -> Iterator[MemberViolation]:
        if member.owned_partitions and member.is_well_behaved:
            owned = ", ".join(str(each) for each in member.owned_partitions)
            yield MemberViolation(NEW_ID_OWNS_NOTHING, f"{name} was {member.member_id}, and owned {owned}")
        self.on_member_stop(name, at_ms)

    def on_record(self, name: str, partition: TopicPartition) -> Iterator[MemberViolation]:
        """Check that a member which processes a record of this partition owns it; yields the violations."""
        member = self.by_name[name]
        if partition in member.owned_partitions:
            return
        if member.is_well_behaved:
            yield MemberViolation(ONLY_OWNED_PARTITIONS, f"{name} reads {partition}")
        for other in self._owners.get((member.group_id, partition), ()):
            if self._must_not_share(member, self.by_name[other], partition):
                yield MemberViolation(NO_TWO_READERS, f"{name} reads {partition}, which {other} owns now")

    def on_member_stop(self, name: str, at_ms: int) -> None:
        """Note that a member's process has ended or restarted: from now on it owns nothing."""
        member = self.by_name[name]
        self._unassign(name, member, tuple(member.owned_partitions), at_ms)

    def _assign(
        self, name: str, member: ObservedMember, partition: TopicPartition, at_ms: int
    ) -> Iterator[MemberViolation]:
        key = member.group_id, partition
        owners = self._owners.setdefault(key, {})
        if self.is_assigned_unsoundly(member.group_id, member.generation_id):
            member.doubtful_partitions.add(partition)
        for other in owners:
            if other != name and self._must_not_share(member, self.by_name[other], partition):
                yield MemberViolation(NO_TWO_READERS, f"{name} reads {partition}, which {other} still owns")
        if not owners and (since_ms := self._unowned_since_ms.pop(key, None)) is not None:
            self._unowned_ms += at_ms - since_ms
        owners[name] = None
        member.owned_partitions[partition] = None
        self.unowned_partitions[at_ms] = len(self._unowned_since_ms)

    def _must_not_share(self, member: ObservedMember, other: ObservedMember, partition: TopicPartition) -> bool:
        """Whether it is a violation if these two members own this partition at the same time."""
        both = (member, other)
        return (
            all(each.is_well_behaved and each.protocol_name == COOPERATIVE_PROTOCOL for each in both)
            and not any(each.member_id in self._removed_members for each in both)
            and not any(each.member_id in self._absent_members for each in both)
            and not any(partition in each.doubtful_partitions for each in both)
        )

    def _unassign(self, name: str, member: ObservedMember, partitions: tuple[TopicPartition, ...], at_ms: int) -> None:
        for partition in partitions:
            key = member.group_id, partition
            member.owned_partitions.pop(partition, None)
            member.doubtful_partitions.discard(partition)
            owners = self._owners.get(key, {})
            if name in owners:
                del owners[name]
                if not owners and partition.topic not in self._deleted_topics:
                    self._unowned_since_ms[key] = at_ms
                self.unowned_partitions[at_ms] = len(self._unowned_since_ms)

    def on_topic_deleted(self, topic: str, at_ms: int) -> None:
        """Note that a topic was deleted: its partitions need no owner, and in a new topic of its name offsets begin at
        0."""
        self._deleted_topics.add(topic)
        for key in [key for key in self._unowned_since_ms if key[1].topic == topic]:
            self._unowned_ms += at_ms - self._unowned_since_ms.pop(key)
            self.unowned_partitions[at_ms] = len(self._unowned_since_ms)
        for ledger in self.ledgers.values():
            ledger.remove_topic(topic, at_ms)

    def on_topic_created(self, topic: str) -> None:
        """Note that a topic was created, perhaps with the name of a deleted one: its partitions need owners."""
        self._deleted_topics.discard(topic)

    def unowned_s(self, at_ms: int) -> float:
        """For how many seconds until `at_ms` partitions were without an owner, summed over all that have had one."""
        return (self._unowned_ms + sum(at_ms - since_ms for since_ms in self._unowned_since_ms.values())) / 1000

    # Records

    def on_commit(self, group_id: str, partition: TopicPartition, offset: int) -> Iterator[MemberViolation]:
        """Check the offset in a commit that the coordinator has accepted; yields a violation if it is beyond what was
        processed."""
        ledger = self.ledgers.get(group_id)
        if ledger is None:
            return
        ledger.excuse_position_of_deleted_topic(partition, offset)
        if ledger.is_ahead(partition, offset):
            yield MemberViolation(COMMIT_NOT_AHEAD, f"{group_id} committed {offset} of {partition}")

    def skipped_records(self, group_id: str, committed_offsets: OffsetsByPartition) -> Iterator[MemberViolation]:
        """Find the records below the committed offsets that no member has processed, at the end of a run, and what the
        group's ledger has miscounted."""
        ledger = self.ledgers.get(group_id)
        if ledger is None:
            return
        for detail in ledger.miscounted(committed_offsets):
            yield MemberViolation(COUNTED_AS_IT_WAS, f"{group_id}: {detail}")
        for topic, partitions in committed_offsets.items():
            for number, committed in partitions.items():
                partition = TopicPartition(topic, number)
                for first, stop in ledger.skipped_below(partition, committed.offset):
                    yield MemberViolation(
                        NO_RECORD_SKIPPED,
                        f"{group_id} has committed {committed.offset} of {partition}, skipping {first}-{stop - 1}",
                    )
