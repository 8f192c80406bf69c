"""The assignors `sticky` and `cooperative-sticky`: as balanced as possible, and then with as few movements as possible.

Where all members have the same subscription Kafka assigns by quotas (`constrained`), otherwise by a search
(`general`). Before Kafka 2.5.1 and 2.6 it always searched; `before_2_6` has that assignor.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorMember,
    ClusterMetadata,
    LastAssignment,
    RebalanceProtocol,
    known_topics,
    subscribed_topics,
)
from regroup.assignors.sticky.constrained import ConstrainedAssignmentBuilder
from regroup.assignors.sticky.general import GeneralStart, assign_general
from regroup.assignors.sticky.previous_ownership import (
    MemberData,
    PreviousOwnership,
    RackInfo,
    previous_owners,
    rack_info,
    resolve_claims,
    unassigned_partitions,
)
from regroup.assignors.sticky.working_state import StickyMembers
from regroup.protocol.consumer.sticky_user_data import (
    StickyUserData,
    StickyUserDataReader,
    decode_cooperative_sticky_user_data,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
    java_sticky_order,
)
from regroup.protocol.consumer.subscription import NO_GENERATION, TopicPartition
from regroup.protocol.java_order import utf16_order


class AbstractStickyAssignor(Assignor):
    """Base class of both sticky assignors. They differ in where a member's previous partitions are found."""

    @abstractmethod
    def member_data(self, members: Mapping[str, AssignorMember]) -> dict[str, MemberData]:
        """The previous partitions and the generation that each member claims in its Subscription, by member id."""

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        """Assign all partitions. Raises `AssignorError` where Kafka's class throws an exception."""
        return self._assign(cluster, members)[0] if members else {}

    def _assign(
        self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]
    ) -> tuple[Assignments, Mapping[TopicPartition, str] | None]:
        """The assignments, and the new owner of each partition that another member still owns; None in its place if
        that was not recorded."""
        topics = sorted(known_topics(cluster, subscribed_topics(members)), key=utf16_order)
        member_data = self.member_data(members)
        previous = resolve_claims(member_data, members, dict.fromkeys(topics))
        racks = rack_info(cluster, members, topics)
        if all_subscriptions_equal(members):
            builder = ConstrainedAssignmentBuilder(cluster, topics, previous, racks)
            builder.build()
            return builder.assignments, builder.transferring_ownership
        sticky_members = StickyMembers(cluster, members, topics)
        start = _general_start(sticky_members, members, previous, racks, member_data)
        assigned = assign_general(sticky_members, start, racks)
        return {name: assigned[sticky_members.rank_of[name]] for name in members}, None


class StickyAssignor(AbstractStickyAssignor):
    """The assignor `sticky`: members revoke all partitions before they join, and send the previous ones in their user
    data."""

    name = "sticky"

    def member_data(self, members: Mapping[str, AssignorMember]) -> dict[str, MemberData]:
        """The claims in the members' user data. `owned_partitions` are ignored, since an eager member owns nothing
        while it joins."""
        reader = StickyUserDataReader()
        nothing = MemberData((), None)
        found: dict[str, MemberData] = {}
        for name, member in members.items():
            if member.user_data:
                data = reader.read(member.user_data)
                found[name] = MemberData(data.partitions, data.generation)
            else:
                found[name] = nothing
        return found

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        """The last assignment and its generation, encoded; None for a member that never had an assignment."""
        if last is None:
            return None
        return encode_sticky_user_data(StickyUserData(java_sticky_order(last.partitions), last.generation))


class CooperativeStickyAssignor(AbstractStickyAssignor):
    """The assignor `cooperative-sticky`: members keep their partitions while they join. A partition that moves is
    revoked first, and assigned in the next rebalance."""

    name = "cooperative-sticky"
    supported_protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def member_data(self, members: Mapping[str, AssignorMember]) -> dict[str, MemberData]:
        """The members' owned partitions, with the generation of the Subscription, or of the user data for Subscriptions
        before v2."""
        # Most members of a group have the same user data.
        generations = {
            data: None if data is None else decode_cooperative_sticky_user_data(data)
            for data in {member.user_data: None for member in members.values()}
        }
        return {
            name: MemberData(
                member.owned_partitions,
                generations[member.user_data] if member.generation_id == NO_GENERATION else member.generation_id,
            )
            for name, member in members.items()
        }

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        """The generation of the last assignment, encoded; -1 for a member that never had an assignment."""
        return encode_cooperative_sticky_user_data(NO_GENERATION if last is None else last.generation)

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        """Assign all partitions except those that another member must revoke first."""
        if not members:
            return {}
        assignments, transferring = self._assign(cluster, members)
        if transferring is None:
            transferring = _transferring_ownership(assignments, members)
        for name in dict.fromkeys(transferring.values()):
            assignments[name] = [each for each in assignments[name] if transferring.get(each) != name]
        return assignments


def all_subscriptions_equal(members: Mapping[str, AssignorMember]) -> bool:
    """Whether all members subscribe to the same topics. Empty subscriptions do not count if they precede all others."""
    first: set[str] = set()
    last: tuple[str, ...] = ()
    for member in members.values():
        if not first:
            first = set(member.topics)
        elif member.topics is not last and (len(member.topics) != len(first) or not first.issuperset(member.topics)):
            return False
        last = member.topics
    return True


def _general_start(
    sticky_members: StickyMembers,
    members: Mapping[str, AssignorMember],
    previous: PreviousOwnership,
    racks: RackInfo,
    member_data: Mapping[str, MemberData],
) -> GeneralStart:
    """The state after the first step of the general assignment: every member keeps its previous partitions of topics to
    which it still subscribes, except those without a replica in its rack."""
    cluster, rank_of = sticky_members.cluster, sticky_members.rank_of
    assigned: list[list[TopicPartition]] = [[] for _ in sticky_members.names]
    for name in members:
        rank = rank_of[name]
        topics = frozenset(sticky_members.topics_of[rank])
        assigned[rank] = [each for each in previous.owned[name] if each[0] in topics]
        if racks.of_member:
            assigned[rank] = [each for each in assigned[rank] if not racks.is_mismatch(name, each)]
    topics_in_order = sticky_members.topics_by_subscribers()
    kept = [each for partitions in assigned for each in partitions]
    return GeneralStart(
        assigned,
        sorted_partitions=[each for topic in topics_in_order for each in cluster.partitions(topic)],
        unassigned=unassigned_partitions(kept, topics_in_order, cluster),
        previous_owner={partition: rank_of[name] for partition, name in previous_owners(member_data).items()},
        is_revocation_required=any(len(assigned[rank_of[name]]) < len(owned) for name, owned in previous.owned.items()),
    )


def _transferring_ownership(
    assignments: Assignments, members: Mapping[str, AssignorMember]
) -> dict[TopicPartition, str]:
    """The new owner of each partition that was taken from one member and given to another."""
    added: dict[TopicPartition, str] = {}
    taken: set[TopicPartition] = set()
    for name, partitions in assignments.items():
        owned = set(members[name].owned_partitions)
        added.update((each, name) for each in partitions if each not in owned)
        taken |= owned.difference(partitions)
    return {partition: name for partition, name in added.items() if partition in taken}
