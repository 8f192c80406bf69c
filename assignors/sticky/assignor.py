"""`sticky` and `cooperative-sticky`: as even as possible, and then as much as possible where it was.

Kafka deals in one of two ways. Where all members subscribe alike it counts quotas (`sticky_equal`), otherwise it
searches (`sticky_general`). Until Kafka 2.5.1 and 2.6 it always searched; `sticky_before_2_6` is that one.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    Cluster,
    LastAssignment,
    Member,
    RebalanceProtocol,
    known_topics,
    subscribed_topics,
)
from regroup.assignors.sticky import general
from regroup.assignors.sticky.constrained import EqualDeal
from regroup.assignors.sticky.general import Start
from regroup.assignors.sticky.previous_ownership import (
    Claims,
    Memory,
    Racks,
    former_owners,
    racks_that_matter,
    reconcile,
    still_free,
)
from regroup.assignors.sticky.working_state import Group
from regroup.protocol.consumer.sticky_user_data import (
    StickyUserData,
    StickyUserDataReader,
    decode_cooperative_sticky_user_data,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
    in_sticky_order,
)
from regroup.protocol.consumer.subscription import NO_GENERATION, TopicPartition
from regroup.protocol.java_order import utf16_order


class AbstractSticky(Assignor):
    """What both have in common; they differ in how a member tells what it had."""

    @abstractmethod
    def memories(self, members: Mapping[str, Member]) -> dict[str, Memory]:
        """What each member says it had."""

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        """Deal out all partitions; raises `AssignorError` where Kafka's class throws."""
        return self._deal(cluster, members)[0] if members else {}

    def _deal(
        self, cluster: Cluster, members: Mapping[str, Member]
    ) -> tuple[Assignments, Mapping[TopicPartition, str] | None]:
        """The assignments, and who got partitions that another member still holds; None if that was not noted."""
        topics = sorted(known_topics(cluster, subscribed_topics(members)), key=utf16_order)
        memories = self.memories(members)
        claims = reconcile(memories, members, dict.fromkeys(topics))
        racks = racks_that_matter(cluster, members, topics)
        if all_subscribe_alike(members):
            equal_deal = EqualDeal(cluster, topics, claims, racks)
            equal_deal.deal()
            return equal_deal.assignments, equal_deal.changed_hands
        group = Group(cluster, members, topics)
        start = _keep_what_can_be_kept(group, members, claims, racks, memories)
        held = general.deal(group, start, racks)
        return {name: held[group.rank_of[name]] for name in members}, None


class StickyAssignor(AbstractSticky):
    """Members give everything up before they join, and tell in their user data what they had."""

    name = "sticky"

    def memories(self, members: Mapping[str, Member]) -> dict[str, Memory]:
        """From the user data; `owned_partitions` are ignored, since an eager member owns nothing while it joins."""
        return memories_in_user_data(members)

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        """The last assignment and its generation; nothing for a member that never had any."""
        if last is None:
            return None
        return encode_sticky_user_data(StickyUserData(in_sticky_order(last.partitions), last.generation))


class CooperativeStickyAssignor(AbstractSticky):
    """Members keep what they have while they join; what is to move is first taken away, and given out a round later."""

    name = "cooperative-sticky"
    supported_protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def memories(self, members: Mapping[str, Member]) -> dict[str, Memory]:
        """The owned partitions, with the Subscription's generation or, from members before v2, the user data's."""
        # Most members of a group say the same.
        in_user_data = {member.user_data: _generation_in(member.user_data) for member in members.values()}
        return {
            name: Memory(
                member.owned_partitions,
                in_user_data[member.user_data] if member.generation_id == NO_GENERATION else member.generation_id,
            )
            for name, member in members.items()
        }

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        """The generation of the last assignment, -1 for a member that never had any."""
        return encode_cooperative_sticky_user_data(NO_GENERATION if last is None else last.generation)

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        """Deal out all partitions but those that somebody else must first give up."""
        if not members:
            return {}
        assignments, changed_hands = self._deal(cluster, members)
        if changed_hands is None:
            changed_hands = _changed_hands(assignments, members)
        for name in dict.fromkeys(changed_hands.values()):
            assignments[name] = [each for each in assignments[name] if changed_hands.get(each) != name]
        return assignments


def _generation_in(user_data: bytes | None) -> int | None:
    return None if user_data is None else decode_cooperative_sticky_user_data(user_data)


def memories_in_user_data(members: Mapping[str, Member]) -> dict[str, Memory]:
    """What the members of a `sticky` group had, by their user data."""
    reader = StickyUserDataReader()
    nothing = Memory((), None)
    memories: dict[str, Memory] = {}
    for name, member in members.items():
        if member.user_data:
            data = reader.read(member.user_data)
            memories[name] = Memory(data.partitions, data.generation)
        else:
            memories[name] = nothing
    return memories


def all_subscribe_alike(members: Mapping[str, Member]) -> bool:
    """Whether every member has the topics of the first. Empty subscriptions before the first other one do not count."""
    first: set[str] = set()
    last: tuple[str, ...] = ()
    for member in members.values():
        if not first:
            first = set(member.topics)
        elif member.topics is not last and (len(member.topics) != len(first) or not first.issuperset(member.topics)):
            return False
        last = member.topics
    return True


def _keep_what_can_be_kept(
    group: Group, members: Mapping[str, Member], claims: Claims, racks: Racks, memories: Mapping[str, Memory]
) -> Start:
    held: list[list[TopicPartition]] = [[] for _ in group.names]
    for name in members:
        rank = group.rank_of[name]
        may_have = frozenset(group.topics_of[rank])
        held[rank] = [each for each in claims.owned[name] if each[0] in may_have]
        if racks.of_member:
            held[rank] = [each for each in held[rank] if not racks.mismatch(name, each)]
    revoked = any(len(held[group.rank_of[name]]) < len(owned) for name, owned in claims.owned.items())
    order = group.topics_in_order()
    kept = [each for partitions in held for each in partitions]
    former = former_owners(memories)
    return Start(
        held,
        order=[each for topic in order for each in group.cluster.partitions(topic)],
        free=still_free(kept, order, group.cluster),
        former={partition: group.rank_of[name] for partition, name in former.items()},
        revoked=revoked,
    )


def _changed_hands(assignments: Assignments, members: Mapping[str, Member]) -> dict[TopicPartition, str]:
    """Which partitions were added to a member and taken from another."""
    added: dict[TopicPartition, str] = {}
    taken: set[TopicPartition] = set()
    for name, partitions in assignments.items():
        owned = set(members[name].owned_partitions)
        added.update((each, name) for each in partitions if each not in owned)
        taken |= owned.difference(partitions)
    return {partition: name for partition, name in added.items() if partition in taken}
