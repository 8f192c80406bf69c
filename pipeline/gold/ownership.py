"""Who holds which partition from when to when, and who holds none: the tables `ownership` and `gaps`.

Seen from the coordinator. A member holds its share from the moment its SyncGroup is answered. It gives up what its next
JoinGroup no longer names as owned (an eager member: everything), what a new share leaves out, and all of it when it
goes. What a process does behind the coordinator's back, such as reading on as a zombie, is not in the events.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from regroup.coordinator import events as e
from regroup.coordinator.group import Group, MemberId, State, Waiting
from regroup.pipeline.gold.transition import Moment, Row, identity, partitions_in, still_owned, topics_in
from regroup.protocol.consumer.subscription import TopicPartition

WHY: Final[dict[State, str]] = {
    State.DEAD: "empty",
    State.EMPTY: "empty",
    State.PREPARING: "join",
    State.COMPLETING: "sync",
    State.STABLE: "unassigned",
}
"""Why nobody holds a partition, by what the group is doing. In a Stable group its owner may be yet to ask for it."""


@dataclass(slots=True)
class Holding:
    """A partition in somebody's hands."""

    identity: str
    from_ms: int
    generation: int
    last_commit_ms: int | None = None


@dataclass(slots=True)
class Gap:
    """A partition in nobody's hands, for one reason."""

    from_ms: int
    why: str
    trigger: str


class Holdings:
    """Watches one group. `last_owner` names who held a partition last, by identity.

    `trigger` is what set off the rebalance that runs, or ran last; whoever watches rebalances says it.
    """

    def __init__(self) -> None:
        self.trigger = ""
        self.last_owner: dict[TopicPartition, str] = {}
        self._held: dict[TopicPartition, dict[MemberId, Holding]] = {}
        self._of: dict[MemberId, dict[TopicPartition, None]] = {}
        self._gaps: dict[TopicPartition, Gap] = {}
        self._counts: dict[str, int] = {}
        self._subscribed: dict[str, None] = {}
        self._group: Group | None = None
        """As it was seen last."""

    def begins_with(self, group: Group, at_ms: int) -> None:
        """The history before this moment is gone; whoever has a share holds it."""
        self._group = group
        self._subscribe(group)
        if group.state in (State.STABLE, State.PREPARING):
            for name, member in group.members.items():
                for partition in partitions_in(member.assignment):
                    self._give(partition, name, identity(member, name), at_ms, group.generation)

    def holds(self, member: MemberId, partition: TopicPartition) -> bool:
        return partition in self._of.get(member, ())

    def topic_has(self, topic: str, partitions: int, at_ms: int) -> Iterator[Row]:
        """A topic came, grew, or (with 0) went."""
        self._counts[topic] = partitions
        if self._group is not None:
            yield from self._look_for_gaps(at_ms, self._group)

    def sees(self, moment: Moment) -> Iterator[Row]:
        if isinstance(moment.event, e.OffsetsCommitted):
            self._note_commit(moment.event, moment.at_ms)
            return
        yield from self._changes_hands(moment)
        if moment.before.members is not moment.after.members:
            self._subscribe(moment.after)
        self._group = moment.after
        yield from self._look_for_gaps(moment.at_ms, moment.after)

    def ends(self) -> Iterator[Row]:
        for partition, holders in self._held.items():
            for name, holding in holders.items():
                yield ownership(partition, name, holding, None, "open", None)
        for partition, gap in self._gaps.items():
            yield gap_row(partition, gap, None)

    def _changes_hands(self, moment: Moment) -> Iterator[Row]:
        event = moment.event
        match event:
            case e.AssignmentCommitted():
                for member in moment.before.waiting(Waiting.SYNC):
                    yield from self._takes(moment, member.member_id)
            case e.MemberSynced(waits=False):
                yield from self._takes(moment, event.member)
            case e.MemberRejoined():
                kept = still_owned(moment.after.members[event.member].protocols[0].metadata) if event.protocols else ()
                yield from self._drops(moment, event.member, "revoked", besides=kept)
            case e.StaticMemberReplaced():
                yield from self._replaced(moment, event)
            case e.MemberLeft():
                yield from self._drops(moment, event.member, "left")
            case e.MemberExpelled():
                yield from self._silence(moment, event)
                yield from self._drops(moment, event.member, "expelled", event.last_heard_ms)
            case e.CoordinatorLoaded() | e.GroupDeleted() | e.AppendRefused():
                for name in [name for name in self._of if name not in moment.after.members]:
                    yield from self._drops(moment, name, "forgotten")

    def _subscribe(self, group: Group) -> None:
        """While nobody is there, the group is about the topics that it was about."""
        if group.members:
            self._subscribed = {
                topic: None
                for member in group.members.values()
                if member.protocols
                for topic in topics_in(member.protocols[0].metadata)
            }

    def _note_commit(self, event: e.OffsetsCommitted, at_ms: int) -> None:
        for topic, offsets in event.offsets.items():
            for number in offsets:
                holding = self._held.get(TopicPartition(topic, number), {}).get(event.member)
                if holding:
                    holding.last_commit_ms = at_ms

    def _takes(self, moment: Moment, name: MemberId) -> Iterator[Row]:
        """A share arrives: what is not in it is given up, what is new is taken."""
        member = moment.after.members[name]
        share = partitions_in(member.assignment)
        yield from self._drops(moment, name, "revoked", besides=share)
        for partition in share:
            if not self.holds(name, partition):
                self._give(partition, name, identity(member, name), moment.at_ms, moment.after.generation)

    def _give(self, partition: TopicPartition, name: MemberId, who: str, at_ms: int, generation: int) -> None:
        self._held.setdefault(partition, {})[name] = Holding(who, at_ms, generation)
        self._of.setdefault(name, {})[partition] = None
        self.last_owner[partition] = who

    def _drops(
        self,
        moment: Moment,
        name: MemberId,
        ended_by: str,
        last_heard_ms: int | None = None,
        besides: Iterable[TopicPartition] = (),
    ) -> Iterator[Row]:
        kept = dict.fromkeys(besides)
        for partition in [each for each in self._of.get(name, ()) if each not in kept]:
            holding = self._held[partition].pop(name)
            del self._of[name][partition]
            yield ownership(partition, name, holding, moment.at_ms, ended_by, last_heard_ms)
        if not self._of.get(name):
            self._of.pop(name, None)

    def _replaced(self, moment: Moment, event: e.StaticMemberReplaced) -> Iterator[Row]:
        """In Stable the new process goes on with the old one's share, and nobody else notices."""
        inherited = () if event.waits else tuple(self._of.get(event.replaces, ()))
        yield from self._drops(moment, event.replaces, "replaced")
        for partition in inherited:
            self._give(partition, event.member, event.instance_id, moment.at_ms, moment.after.generation)

    def _silence(self, moment: Moment, event: e.MemberExpelled) -> Iterator[Row]:
        """Nobody knew it yet, but since it was last heard its partitions had no owner that worked."""
        if event.last_heard_ms is None:
            return
        for partition in self._of.get(event.member, ()):
            gap = Gap(max(event.last_heard_ms, self._held[partition][event.member].from_ms), "silence", "expelled")
            yield from ended(partition, gap, moment.at_ms)

    def _look_for_gaps(self, at_ms: int, group: Group) -> Iterator[Row]:
        for partition in [each for each in self._gaps if self._held.get(each) or not self._is_known(each)]:
            yield from ended(partition, self._gaps.pop(partition), at_ms)
        for partition, why in whys(group, [each for each in self._known() if not self._held.get(each)]):
            gap = self._gaps.get(partition)
            if gap is None or gap.why != why:
                if gap is not None:
                    yield from ended(partition, gap, at_ms)
                self._gaps[partition] = Gap(at_ms, why, self.trigger)

    def _known(self) -> Iterator[TopicPartition]:
        """Every partition of the group's topics, and those that somebody held where no topic event tells."""
        for topic in self._subscribed:
            for number in range(self._counts.get(topic, 0)):
                yield TopicPartition(topic, number)
        for partition in self._held:
            if partition.topic in self._subscribed and partition.topic not in self._counts:
                yield partition

    def _is_known(self, partition: TopicPartition) -> bool:
        return partition.topic in self._subscribed and partition.partition < self._counts.get(partition.topic, 2**31)


def whys(group: Group, without_owner: list[TopicPartition]) -> Iterator[tuple[TopicPartition, str]]:
    """Why nobody holds each of these. It may have been dealt out, and its owner has not asked for its share yet."""
    dealt_out: set[TopicPartition] = set()
    if without_owner and group.state is State.STABLE:
        dealt_out.update(*(partitions_in(member.assignment) for member in group.members.values()))
    for partition in without_owner:
        yield partition, "sync" if partition in dealt_out else WHY[group.state]


def ownership(
    partition: TopicPartition,
    name: MemberId,
    holding: Holding,
    to_ms: int | None,
    ended_by: str,
    last_heard_ms: int | None,
) -> Row:
    return "ownership", {
        "topic": partition.topic,
        "partition": partition.partition,
        "member": name,
        "identity": holding.identity,
        "generation": holding.generation,
        "from_ms": holding.from_ms,
        "to_ms": to_ms,
        "ended_by": ended_by,
        "last_heard_ms": last_heard_ms,
        "last_commit_ms": holding.last_commit_ms,
    }


def ended(partition: TopicPartition, gap: Gap, at_ms: int) -> Iterator[Row]:
    """Between two events of one command no time passes, and nothing was missed."""
    if at_ms > gap.from_ms:
        yield gap_row(partition, gap, at_ms)


def gap_row(partition: TopicPartition, gap: Gap, to_ms: int | None) -> Row:
    return "gaps", {
        "topic": partition.topic,
        "partition": partition.partition,
        "from_ms": gap.from_ms,
        "to_ms": to_ms,
        "why": gap.why,
        "trigger": gap.trigger,
    }
