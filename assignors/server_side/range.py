"""The coordinator's `range`: consecutive partitions, with the same numbers in all topics where sizes allow it."""

from itertools import pairwise

from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, TargetAssignments
from regroup.protocol.java_order import utf16_order


class ServerRangeAssignor(ServerAssignor):
    """Divides each topic into one range for each subscriber; the first ranges are longer by one if necessary.

    Members get their ranges in order, static members first. The last assignment has no influence. Where all members
    count as equal subscribers, the subscription of the first one is that of all.
    """

    name = "range"

    def assign(self, group: ServerGroup) -> TargetAssignments:
        """The ranges of every member. Raises `AssignorError` for a topic that does not exist."""
        order = sorted(group.members, key=lambda name: _sort_key(group, name))
        if order and group.is_homogeneous():
            subscribed = dict.fromkeys(order, group.members[order[0]].topics)
        else:
            subscribed = {name: group.members[name].topics for name in order}
        sizes: dict[str, tuple[int, int]] = {}
        for name in order:
            for topic in dict.fromkeys(subscribed[name]):
                count, subscribers = sizes.get(topic) or (group.partition_count(topic, name), 0)
                sizes[topic] = count, subscribers + 1
        ranges = {topic: _ranges(count, subscribers) for topic, (count, subscribers) in sizes.items()}
        targets: TargetAssignments = {}
        for name in order:
            own = {topic: set(ranges[topic].pop()) for topic in dict.fromkeys(subscribed[name])}
            targets[name] = {topic: numbers for topic, numbers in own.items() if numbers}
        return {name: targets[name] for name in group.members}


def _sort_key(group: ServerGroup, name: str) -> tuple[bool, bytes]:
    instance_id = group.members[name].instance_id
    return instance_id is None, utf16_order(name if instance_id is None else instance_id)


def _ranges(count: int, subscribers: int) -> list[range]:
    """The ranges of a topic, the first one last."""
    quota, longer = divmod(count, subscribers)
    ends = [quota * index + min(index, longer) for index in range(subscribers + 1)]
    return [range(start, end) for start, end in pairwise(ends)][::-1]
