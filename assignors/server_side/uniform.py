"""The coordinator's `uniform`, the default: as even as possible, and then as much as possible where it was.

Where all subscribe alike, quotas suffice (below). Where subscriptions differ, see `server_uniform_unequal`.
"""

from collections import deque

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, ServerMember, Targets
from regroup.assignors.server_side.uniform_heterogeneous import UnequalDeal
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition, topic_partitions


class UniformAssignor(ServerAssignor):
    """Chooses the way by the subscriptions."""

    name = "uniform"

    def assign(self, group: ServerGroup) -> Targets:
        """The new targets; raises `AssignorError` for a topic that does not exist."""
        if not any(member.topics for member in group.members.values()):
            return {name: {} for name in group.members}
        if group.all_subscribe_alike():
            return _deal_by_quota(group)
        return UnequalDeal(group).deal()


def _deal_by_quota(group: ServerGroup) -> Targets:
    """With p partitions and n members the first p % n members may have p // n + 1, the others p // n.

    A member keeps what it has up to that. What nobody has, and then what had to be given up, fills the others.
    """
    first, topics = next((name, member.topics) for name, member in group.members.items())
    sizes = {topic: group.size(topic, first) for topic in topics}
    taken = {each for member in group.members.values() for each in member.current}
    free = deque(each for topic in sizes for each in topic_partitions(topic, range(sizes[topic])) if each not in taken)
    quota, larger = divmod(sum(sizes.values()), len(group.members))
    kept: dict[str, list[TopicPartition]] = {}
    room: dict[str, int] = {}
    for place, (name, member) in enumerate(group.members.items()):
        kept[name], given_up, room[name] = _keep(member, quota + (place < larger), sizes)
        free.extend(given_up)
    for name in group.members:
        kept[name] += [free.popleft() for _ in range(min(room[name], len(free)))]
    if free:
        topic, number = free[0]
        raise AssignorError(f"partition {number} of topic {topic} is left over, nobody has room for it", topic=topic)
    return {name: {topic: set(numbers) for topic, numbers in by_topic(kept[name]).items()} for name in kept}


def _keep(
    member: ServerMember, quota: int, sizes: dict[str, int]
) -> tuple[list[TopicPartition], list[TopicPartition], int]:
    """What the member keeps, what it gives up, and for how many it has room."""
    kept: list[TopicPartition] = []
    given_up: list[TopicPartition] = []
    for topic, numbers in by_topic(member.current).items():
        if topic in sizes:
            kept += topic_partitions(topic, numbers[:quota])
            given_up += topic_partitions(topic, numbers[quota:])
            quota -= min(quota, len(numbers))
    return kept, given_up, quota
