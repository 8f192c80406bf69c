"""The assignor `sticky` as it was until Kafka 2.5.1 and 2.6 (KAFKA-9987): the general assignment in every rebalance.

Textbooks describe this one. It differs from today's `sticky` in four points:

* Equal subscriptions have no quotas. They are assigned by the same search, and partitions are considered in another
  order: those of the member with the most first, one at a time, and unassigned ones last.
* The claim of the latest generation holds, and the one before it is the previous owner. Of two claims in the same
  generation the first holds; today both are void.
* Claims to numbers that a topic no longer has are dropped at once, so no partition is assigned twice.
* A difference of one partition between two members already counts as unbalanced.

Racks did not exist yet. Where Java iterates hash maps of partitions, their order is simulated.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from regroup.assignors.interface import Assignments, AssignorMember, ClusterMetadata, known_topics, subscribed_topics
from regroup.assignors.sticky.assignor import StickyAssignor
from regroup.assignors.sticky.general import GeneralStart, assign_general
from regroup.assignors.sticky.previous_ownership import MemberData, RackInfo
from regroup.assignors.sticky.working_state import StickyMembers
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import in_hash_map_order, java_hash_map_order, java_partition_hash, utf16_order


class StickyBefore26Assignor(StickyAssignor):
    """The assignor `sticky` before Kafka 2.6. In a group it has the same name and the same user data as today's."""

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        """Assign all partitions by the older algorithm, whose differences from today's `sticky` the module
        describes."""
        if not members:
            return {}
        subscribed = subscribed_topics(members)
        sticky_members = StickyMembers(cluster, members, sorted(known_topics(cluster, subscribed), key=utf16_order))
        start = _start(sticky_members, self.member_data(members), subscribed)
        assigned = assign_general(sticky_members, start, RackInfo(), tolerance=0)
        return {name: assigned[sticky_members.rank_of[name]] for name in members}


def _start(members: StickyMembers, member_data: Mapping[str, MemberData], subscribed: list[str]) -> GeneralStart:
    claims = _claims(members, member_data)
    partitions = [each for topic in members.topics_by_subscribers() for each in members.cluster.partitions(topic)]
    existing = frozenset(partitions)
    claimed: list[list[TopicPartition]] = [[] for _ in members.names]
    java_order = in_hash_map_order(claims, java_partition_hash)
    for partition in java_order:
        if partition in existing:
            claimed[claims[partition][max(claims[partition])]].append(partition)
    contested = [each for each in java_order if len(claims[each]) > 1]
    previous_owner = {
        each: claims[each][sorted(claims[each])[-2]] for each in in_hash_map_order(contested, java_partition_hash)
    }
    if claims and len(set(members.subscribers.values())) <= 1 and len(set(members.topics_of)) <= 1:
        partitions = _most_loaded_first(claimed, previous_owner, _partitions_in_java_order(members, subscribed))
    topics = [frozenset(each) for each in members.topics_of]
    kept = [[each for each in mine if each.topic in topics[rank]] for rank, mine in enumerate(claimed)]
    assigned = {each for mine in kept for each in mine}
    unassigned = [each for each in partitions if each not in assigned]
    is_revocation_required = len(assigned) < sum(map(len, claimed))
    return GeneralStart(kept, partitions, unassigned, previous_owner, is_revocation_required)


def _claims(members: StickyMembers, member_data: Mapping[str, MemberData]) -> dict[TopicPartition, dict[int, int]]:
    """The claims to each partition: for each generation, the rank of the member that claims it."""
    claims: dict[TopicPartition, dict[int, int]] = {}
    for name, data in member_data.items():
        for partition in data.partitions:
            by_generation = claims.setdefault(partition, {})
            if data.generation is None or data.generation not in by_generation:
                by_generation[data.known_generation] = members.rank_of[name]
    return claims


def _partitions_in_java_order(members: StickyMembers, subscribed: list[str]) -> list[TopicPartition]:
    """All partitions in the order in which Java iterates its hash maps: of topics, and then of partitions."""
    topics = java_hash_map_order(known_topics(members.cluster, java_hash_map_order(subscribed)))
    partitions = [each for topic in topics for each in members.cluster.partitions(topic)]
    return in_hash_map_order(partitions, java_partition_hash)


def _most_loaded_first(
    claimed: list[list[TopicPartition]],
    previous_owner: Mapping[TopicPartition, int],
    partitions: list[TopicPartition],
) -> list[TopicPartition]:
    """All partitions in the order in which they are considered: repeatedly one partition of the member with the most
    left, partitions with another claim first.

    Partitions without a claim come last.
    """
    position = {partition: index for index, partition in enumerate(previous_owner)}
    left = [
        [each for each in mine if each not in previous_owner][::-1]
        + sorted(position.keys() & set(mine), key=position.__getitem__)[::-1]
        for mine in claimed
    ]
    most_loaded = [(-len(mine), -rank) for rank, mine in enumerate(left) if mine]
    heapify(most_loaded)
    order: list[TopicPartition] = []
    while most_loaded:
        _, negative_rank = heappop(most_loaded)
        mine = left[-negative_rank]
        order.append(mine.pop())
        if mine:
            heappush(most_loaded, (-len(mine), negative_rank))
    listed = frozenset(order)
    return order + [each for each in partitions if each not in listed]
