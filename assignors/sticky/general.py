"""Sticky assignment where subscriptions differ: keep, assign the rest, balance by single movements.

1. A member keeps the previous partitions of its topics (where racks matter, those with a replica in its rack).
2. Every unassigned partition goes to its subscriber with the fewest partitions, topics with few subscribers first.
   Where racks matter, first to subscribers in a rack with a replica.
3. A partition moves to another subscriber (or to its owner in an older generation) that has at least two partitions
   fewer than its owner, until none can. If the result is not more balanced, the movements are undone.

Kafka sorts all members again for every partition. Here the subscriber with the fewest partitions comes from a heap. It
is built again only when the next partition has other subscribers, which is rare: partitions are in order of topics.
"""

from typing import NamedTuple

from regroup.assignors.sticky.balancing import AssignmentBalancer
from regroup.assignors.sticky.previous_ownership import RackInfo
from regroup.assignors.sticky.working_state import CurrentAssignment, LeastLoadedHeap, StickyMembers
from regroup.protocol.consumer.subscription import TopicPartition


class GeneralStart(NamedTuple):
    """The state after the first step of the general assignment.

    `assigned` has the partitions that each member keeps, by rank; `sorted_partitions` all partitions, in the order in
    which they are considered for a movement. `previous_owner` is the rank of a partition's owner in an older generation
    than the latest. Revocation is required if a member loses partitions because of its subscription or its rack.
    """

    assigned: list[list[TopicPartition]]
    sorted_partitions: list[TopicPartition]
    unassigned: list[TopicPartition]
    previous_owner: dict[TopicPartition, int]
    is_revocation_required: bool


def assign_general(
    members: StickyMembers, start: GeneralStart, racks: RackInfo, tolerance: int = 1
) -> list[list[TopicPartition]]:
    """Assign all partitions; returns those of every member, by rank. Raises `AssignorError` where Kafka's class throws
    an exception.

    `tolerance` is the difference between two members that counts as balanced: 1, and 0 before Kafka 2.6.
    """
    current = CurrentAssignment(members, start.assigned)
    is_first_assignment = not any(current.counts)
    unassigned = _assign_within_racks(current, start.unassigned, racks) if racks.of_member else start.unassigned
    heap, ranks = LeastLoadedHeap((), current.counts), None
    for partition in unassigned:
        subscribers = members.subscribers[partition[0]]
        if subscribers is not ranks:
            ranks, heap = subscribers, LeastLoadedHeap(subscribers, current.counts)
        current.assign(partition, heap.least_loaded())
    balancer = AssignmentBalancer(current, start.previous_owner, tolerance)
    before = [list(partitions) for partitions in current.assigned]
    if not start.is_revocation_required:
        balancer.perform_reassignments(start.unassigned)
    has_moved = balancer.perform_reassignments(start.sorted_partitions)
    if not has_moved or is_first_assignment:
        return current.assigned
    return min(before, current.assigned, key=balancer.balance_score)


def _assign_within_racks(
    current: CurrentAssignment, unassigned: list[TopicPartition], racks: RackInfo
) -> list[TopicPartition]:
    """Assign partitions to subscribers without a rack, or in whose rack they have a replica; returns the partitions
    without such a subscriber."""
    rest: list[TopicPartition] = []
    heaps: dict[tuple[tuple[int, ...], frozenset[str]], LeastLoadedHeap] = {}
    names = current.members.names
    for partition in unassigned:
        subscribers, replica_racks = current.members.subscribers[partition.topic], racks.of_replicas[partition]
        if (heap := heaps.get((subscribers, replica_racks))) is None:
            ranks = [rank for rank in subscribers if not racks.is_mismatch(names[rank], partition)]
            heap = heaps[subscribers, replica_racks] = LeastLoadedHeap(ranks, current.counts)
        if heap.ranks:
            current.assign(partition, heap.least_loaded())
        else:
            rest.append(partition)
    return rest
