"""What must hold of the members of a run, as far as they behave well: who reads what, and what becomes of the records.

members = Members(out=promises.out)
members.joins("anna", group="payments")
members.changed("anna", PartitionsAssigned(...), at_ms)      # sentences that this breaks
members.ledger("payments")                                   # to be given to each Member of the group
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from regroup.coordinator.group import Offsets
from regroup.members.consumer.effects import (
    Change,
    Closed,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.runtime.workload import Ledger
from regroup.protocol.consumer.subscription import TopicPartition

COOPERATIVE = "cooperative-sticky"


class Seen(NamedTuple):
    """What was seen that must not be: the invariant's sentence, and the case."""

    sentence: str
    detail: str


NO_TWO_READERS = (
    "Cooperative members never read a partition that another still owns, unless that one was expelled and has not "
    "heard of it."
)
ANEW_MEANS_EMPTY = "A member that comes under a new id has given up what it owned under the former one."
ONLY_ITS_OWN = "A member processes records of partitions that it owns."
NEVER_AHEAD = "A committed offset never runs ahead of what was processed."
NONE_SKIPPED = "No record is skipped."


@dataclass(slots=True)
class MemberSeen:
    """A member as it looks from outside."""

    group: str
    behaves: bool
    deals_soundly: bool
    member_id: str = ""
    protocol: str = ""
    owns: dict[TopicPartition, None] = field(default_factory=dict)


class WatchedLedger(Ledger):
    """The books of one group, kept in step with what its coordinator accepts rather than with what members hear."""

    def __init__(self, late_after_ms: int = 10_000) -> None:
        super().__init__(late_after_ms)
        self._begun: dict[TopicPartition, int] = {}
        self._gone: dict[TopicPartition, int] = {}

    def begins(self, partition: TopicPartition, offset: int) -> None:
        super().begins(partition, offset)
        if offset > self._begun.get(partition, -1):
            self._begun[partition] = offset

    def committed(self, partition: TopicPartition, offset: int) -> None:
        """What a member hears may be overtaken already; `skipped` asks the coordinator's state instead."""

    def processed(self, partition: TopicPartition, offset: int, produced_ms: int, now_ms: int) -> bool:
        # Not a beginning: that would make every record that is processed one that may be committed.
        if partition not in self._partitions:
            self.begins(partition, offset)
        return super().processed(partition, offset, produced_ms, now_ms)

    def is_ahead(self, partition: TopicPartition, offset: int) -> bool:
        """Whether this offset lies beyond what was processed, and beyond where reading ever began."""
        known = self._partitions.get(partition)
        return known is not None and offset > max(known.end, self._begun.get(partition, 0))

    def excuse(self, partition: TopicPartition, below: int) -> None:
        """Nobody will read what lies below: somebody from outside has moved the group's offset."""
        self._gone[partition] = max(below, self._gone.get(partition, 0))

    def forget(self, topic: str) -> None:
        """The topic is gone, and may come back as another one with offsets from 0."""
        for books in (self._partitions, self._begun, self._gone):
            for partition in [each for each in books if each.topic == topic]:
                del books[partition]

    def skipped_below(self, partition: TopicPartition, committed: int) -> Iterator[tuple[int, int]]:
        """Runs of records that nobody has processed and nobody will come back to."""
        known = self._partitions.get(partition)
        if known is None:
            return
        gone = self._gone.get(partition, 0)
        for first, stop in (*known.gaps, (known.end, committed)):
            first, stop = max(first, gone), min(stop, committed)
            if first < stop:
                yield first, stop


class MemberLedger(Ledger):
    """What one member writes into the books of its group. `reads` is told of every partition it processes from."""

    def __init__(self, books: WatchedLedger, reads: Callable[[TopicPartition], None]) -> None:
        super().__init__()
        self._books = books
        self._reads = reads

    def begins(self, partition: TopicPartition, offset: int) -> None:
        self._books.begins(partition, offset)

    def processed(self, partition: TopicPartition, offset: int, produced_ms: int, now_ms: int) -> bool:
        self._reads(partition)
        return self._books.processed(partition, offset, produced_ms, now_ms)

    def holds_nothing(self, partition: TopicPartition, first: int, stop: int) -> None:
        self._books.holds_nothing(partition, first, stop)

    def committed(self, partition: TopicPartition, offset: int) -> None:
        self._books.committed(partition, offset)


class Members:
    """All members of a run. `out` are the member ids that a coordinator has taken out of their groups."""

    def __init__(self, out: Container[str]) -> None:
        self.by_name: dict[str, MemberSeen] = {}
        self.ledgers: dict[str, WatchedLedger] = {}
        self._out = out
        self._owners: dict[tuple[str, TopicPartition], dict[str, None]] = {}
        self._ownerless_since: dict[tuple[str, TopicPartition], int] = {}
        self._ownerless_ms = 0

    def joins(self, name: str, group: str, *, behaves: bool = True, deals_soundly: bool = True) -> None:
        self.by_name[name] = MemberSeen(group, behaves, deals_soundly)

    def ledger(self, group: str) -> WatchedLedger:
        """The books that all members of a group write in."""
        return self.ledgers.setdefault(group, WatchedLedger())

    # Who owns what

    def changed(self, name: str, change: Change, at_ms: int) -> Iterator[Seen]:
        """A change of a member; yields what must not be."""
        member = self.by_name[name]
        match change:
            case JoinedGroup():
                if change.member_id != member.member_id:
                    yield from self._comes_anew(name, member, at_ms)
                member.member_id, member.protocol = change.member_id, change.protocol_name or ""
            case PartitionsAssigned(partitions):
                for partition in partitions:
                    yield from self._takes(name, member, partition, at_ms)
            case PartitionsRevoked(partitions) | PartitionsLost(partitions):
                self._gives_up(name, member, partitions, at_ms)
            case Closed():
                self.is_gone(name, at_ms)

    def _comes_anew(self, name: str, member: MemberSeen, at_ms: int) -> Iterator[Seen]:
        if member.owns and member.behaves:
            owned = ", ".join(str(each) for each in member.owns)
            yield Seen(ANEW_MEANS_EMPTY, f"{name} was {member.member_id}, and owned {owned}")
        self.is_gone(name, at_ms)

    def reads(self, name: str, partition: TopicPartition) -> Iterator[Seen]:
        """It processes a record of this partition."""
        member = self.by_name[name]
        if partition in member.owns:
            return
        if member.behaves:
            yield Seen(ONLY_ITS_OWN, f"{name} reads {partition}")
        for other in self._owners.get((member.group, partition), ()):
            if self._must_not_read_too(member, self.by_name[other]):
                yield Seen(NO_TWO_READERS, f"{name} reads {partition}, which {other} owns now")

    def is_gone(self, name: str, at_ms: int) -> None:
        """It crashed, or began anew: it reads nothing any more."""
        member = self.by_name[name]
        self._gives_up(name, member, tuple(member.owns), at_ms)

    def _takes(self, name: str, member: MemberSeen, partition: TopicPartition, at_ms: int) -> Iterator[Seen]:
        key = member.group, partition
        owners = self._owners.setdefault(key, {})
        for other in owners:
            if other != name and self._must_not_read_too(member, self.by_name[other]):
                yield Seen(NO_TWO_READERS, f"{name} reads {partition}, which {other} still owns")
        if not owners and (since := self._ownerless_since.pop(key, None)) is not None:
            self._ownerless_ms += at_ms - since
        owners[name] = None
        member.owns[partition] = None

    def _must_not_read_too(self, member: MemberSeen, other: MemberSeen) -> bool:
        both = (member, other)
        return (
            all(each.behaves and each.protocol == COOPERATIVE for each in both)
            and other.member_id not in self._out
            and member.member_id not in self._out
        )

    def _gives_up(self, name: str, member: MemberSeen, partitions: tuple[TopicPartition, ...], at_ms: int) -> None:
        for partition in partitions:
            key = member.group, partition
            member.owns.pop(partition, None)
            owners = self._owners.get(key, {})
            if owners.pop(name, self) is None and not owners:
                self._ownerless_since[key] = at_ms

    def topic_vanished(self, topic: str, at_ms: int) -> None:
        """Its partitions are nobody's business any more."""
        for group, partition in [key for key in self._ownerless_since if key[1].topic == topic]:
            self._ownerless_ms += at_ms - self._ownerless_since.pop((group, partition))
        for ledger in self.ledgers.values():
            ledger.forget(topic)

    def ownerless_s(self, at_ms: int) -> float:
        """Partition-seconds without an owner up to now, of partitions that have had one."""
        return (self._ownerless_ms + sum(at_ms - since for since in self._ownerless_since.values())) / 1000

    # What becomes of records

    def commits(self, group: str, partition: TopicPartition, offset: int) -> Iterator[Seen]:
        """A member's commit was accepted."""
        ledger = self.ledgers.get(group)
        if ledger is not None and ledger.is_ahead(partition, offset):
            yield Seen(NEVER_AHEAD, f"{group} committed {offset} of {partition}")

    def skipped(self, group: str, offsets: Offsets) -> Iterator[Seen]:
        """At the end of a run: what the group will never come back to, given where it stands."""
        ledger = self.ledgers.get(group)
        if ledger is None:
            return
        for topic, partitions in offsets.items():
            for number, committed in partitions.items():
                partition = TopicPartition(topic, number)
                for first, stop in ledger.skipped_below(partition, committed.offset):
                    yield Seen(NONE_SKIPPED, f"{group} stands at {committed.offset} of {partition}, {first}-{stop - 1}")
