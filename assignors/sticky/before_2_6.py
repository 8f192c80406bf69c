"""`sticky` as it was until Kafka 2.5.1 and 2.6 (KAFKA-9987): the general deal for every rebalance.

Textbooks describe this one. It differs from today's in four things:

* Equal subscriptions have no quotas. They are dealt out by the same search, and partitions are then tried in another
  order: those of the members with the most first, one from each in turn, and free ones last.
* The claim of the latest generation holds, and the one before it is the former owner. Of two claims in the same
  generation the first holds, where today both are void.
* Numbers that a topic no longer has are forgotten at once, so nothing is given out twice.
* Two members that differ by one already count as unbalanced while partitions are looked at.

Racks were unknown. Where Java walks hash maps of partitions, their order is followed.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from regroup.assignors.interface import Assignments, Cluster, Member, known_topics, subscribed_topics
from regroup.assignors.sticky import general
from regroup.assignors.sticky.assignor import StickyAssignor, memories_in_user_data
from regroup.assignors.sticky.general import Start
from regroup.assignors.sticky.previous_ownership import Memory, Racks
from regroup.assignors.sticky.working_state import Group
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import in_hash_map_order, java_hash_map_order, java_partition_hash, utf16_order


class StickyBefore26Assignor(StickyAssignor):
    """The older `sticky`. To the group it has the same name and the same user data."""

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        """Deal out all partitions."""
        if not members:
            return {}
        subscribed = subscribed_topics(members)
        group = Group(cluster, members, sorted(known_topics(cluster, subscribed), key=utf16_order))
        held = general.deal(group, _start(group, memories_in_user_data(members), subscribed), Racks(), slack=0)
        return {name: held[group.rank_of[name]] for name in members}


def _start(group: Group, memories: Mapping[str, Memory], subscribed: list[str]) -> Start:
    claims = _claims(group, memories)
    order = [each for topic in group.topics_in_order() for each in group.cluster.partitions(topic)]
    existing = frozenset(order)
    held: list[list[TopicPartition]] = [[] for _ in group.names]
    walk = in_hash_map_order(claims, java_partition_hash)
    for partition in walk:
        if partition in existing:
            held[claims[partition][max(claims[partition])]].append(partition)
    contested = [each for each in walk if len(claims[each]) > 1]
    former = {each: _second_latest(claims[each]) for each in in_hash_map_order(contested, java_partition_hash)}
    if claims and len(set(group.subscribers.values())) <= 1 and len(set(group.topics_of)) <= 1:
        order = _from_the_fullest(held, former, _walked_by_java(group, subscribed))
    may_have = [frozenset(topics) for topics in group.topics_of]
    kept = [[each for each in mine if each.topic in may_have[rank]] for rank, mine in enumerate(held)]
    taken = {each for mine in kept for each in mine}
    free = [each for each in order if each not in taken]
    return Start(kept, order, free, former, revoked=len(taken) < sum(map(len, held)))


def _claims(group: Group, memories: Mapping[str, Memory]) -> dict[TopicPartition, dict[int, int]]:
    """For each partition who claims it, by generation."""
    claims: dict[TopicPartition, dict[int, int]] = {}
    for name, memory in memories.items():
        for partition in memory.partitions:
            claim = claims.setdefault(partition, {})
            if memory.generation is None or memory.generation not in claim:
                claim[memory.known_generation] = group.rank_of[name]
    return claims


def _second_latest(claim: dict[int, int]) -> int:
    return claim[sorted(claim)[-2]]


def _walked_by_java(group: Group, subscribed: list[str]) -> list[TopicPartition]:
    """All partitions as Java's maps, of topics and then of partitions, show them."""
    topics = java_hash_map_order(known_topics(group.cluster, java_hash_map_order(subscribed)))
    partitions = [each for topic in topics for each in group.cluster.partitions(topic)]
    return in_hash_map_order(partitions, java_partition_hash)


def _from_the_fullest(
    held: list[list[TopicPartition]], former: Mapping[TopicPartition, int], partitions: list[TopicPartition]
) -> list[TopicPartition]:
    """One partition of the member with the most left, over and over; first those that had another owner before."""
    rank = {partition: place for place, partition in enumerate(former)}
    left = [
        [each for each in mine if each not in former][::-1]
        + sorted(rank.keys() & set(mine), key=rank.__getitem__)[::-1]
        for mine in held
    ]
    fullest = [(-len(mine), -rank) for rank, mine in enumerate(left) if mine]
    heapify(fullest)
    order: list[TopicPartition] = []
    while fullest:
        _, negative_rank = heappop(fullest)
        mine = left[-negative_rank]
        order.append(mine.pop())
        if mine:
            heappush(fullest, (-len(mine), negative_rank))
    listed = frozenset(order)
    return order + [each for each in partitions if each not in listed]
