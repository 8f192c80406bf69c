"""The coordinator's default assignor `uniform`: as balanced as possible, and then with as few movements as possible.

Where all subscriptions are equal it assigns by quotas (below), otherwise see `uniform_heterogeneous`.
"""

from collections import deque

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, ServerMember, TargetAssignments
from regroup.assignors.server_side.uniform_heterogeneous import UniformHeterogeneousBuilder
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition, topic_partitions


class UniformAssignor(ServerAssignor):
    """Assigns by quotas where all subscriptions are equal, otherwise by a search."""

    name = "uniform"

    def assign(self, group: ServerGroup) -> TargetAssignments:
        """Compute the target assignments. Raises `AssignorError` for a topic that does not exist."""
        if not any(member.topics for member in group.members.values()):
            return {name: {} for name in group.members}
        return _assign_by_quotas(group) if group.is_homogeneous() else UniformHeterogeneousBuilder(group).build()


def _assign_by_quotas(group: ServerGroup) -> TargetAssignments:
    """Assign p partitions to n members: p // n + 1 partitions to p % n of them, p // n to the others.

    A member keeps what it has up to its quota. Unassigned partitions, and then revoked ones, are given to the members
    below their quota. The first members have the larger quotas. A member that has nothing to keep for its larger quota
    leaves it to a later one that has, as long as there are more members than larger quotas (Kafka 4.4).
    """
    first, topics = next((name, member.topics) for name, member in group.members.items())
    sizes = {topic: group.partition_count(topic, first) for topic in topics}
    assigned = {each for member in group.members.values() for each in member.current}
    unassigned = deque(
        each for topic in sizes for each in topic_partitions(topic, range(sizes[topic])) if each not in assigned
    )
    quota, larger_quotas = divmod(sum(sizes.values()), len(group.members))
    targets: dict[str, list[TopicPartition]] = {}
    capacity: dict[str, int] = {}
    for index, (name, member) in enumerate(group.members.items()):
        is_larger = larger_quotas > 0
        targets[name], revoked, capacity[name] = _keep(member, quota + is_larger, sizes)
        unassigned.extend(revoked)
        if capacity[name] and is_larger and len(group.members) - index > larger_quotas:
            capacity[name] -= 1
        else:
            larger_quotas -= is_larger
    for name in group.members:
        targets[name] += [unassigned.popleft() for _ in range(min(capacity[name], len(unassigned)))]
    if unassigned:
        topic, number = unassigned[0]
        raise AssignorError(f"partition {number} of topic {topic} is left, and all quotas are full", topic=topic)
    return {name: {topic: set(numbers) for topic, numbers in by_topic(targets[name]).items()} for name in targets}


def _keep(
    member: ServerMember, quota: int, sizes: dict[str, int]
) -> tuple[list[TopicPartition], list[TopicPartition], int]:
    """Three values for a member: the partitions that it keeps, those that it must revoke, and how many more it may
    get."""
    kept: list[TopicPartition] = []
    revoked: list[TopicPartition] = []
    for topic, numbers in by_topic(member.current).items():
        if topic in sizes:
            kept += topic_partitions(topic, numbers[:quota])
            revoked += topic_partitions(topic, numbers[quota:])
            quota -= min(quota, len(numbers))
    return kept, revoked, quota
