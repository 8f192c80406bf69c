"""The coordinator's own `range`: runs of neighbours, the same numbers of every topic where sizes allow it."""

from itertools import pairwise

from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, Targets
from regroup.protocol.java_order import utf16_order


class ServerRangeAssignor(ServerAssignor):
    """Each topic is cut into as many runs as it has subscribers; the first ones are longer by one if need be.

    Members take their runs in order, those with an instance id first. It does not look at what was before.
    """

    name = "range"

    def assign(self, group: ServerGroup) -> Targets:
        """The members' runs; raises `AssignorError` for a topic that does not exist."""
        order = sorted(group.members, key=lambda name: _rank(group, name))
        runs = {topic: _runs(size, subscribers) for topic, (size, subscribers) in _topics(group, order).items()}
        targets: Targets = {}
        for name in order:
            own = {topic: set(runs[topic].pop()) for topic in dict.fromkeys(group.members[name].topics)}
            targets[name] = {topic: run for topic, run in own.items() if run}
        return {name: targets[name] for name in group.members}


def _rank(group: ServerGroup, name: str) -> tuple[bool, bytes]:
    instance = group.members[name].instance_id
    return instance is None, utf16_order(name if instance is None else instance)


def _topics(group: ServerGroup, order: list[str]) -> dict[str, tuple[int, int]]:
    """The size and the number of subscribers of every topic."""
    found: dict[str, tuple[int, int]] = {}
    for name in order:
        for topic in dict.fromkeys(group.members[name].topics):
            size, subscribers = found.get(topic) or (group.size(topic, name), 0)
            found[topic] = size, subscribers + 1
    return found


def _runs(size: int, subscribers: int) -> list[range]:
    """The runs, the first one last."""
    quota, longer = divmod(size, subscribers)
    ends = [quota * count + min(count, longer) for count in range(subscribers + 1)]
    return [range(start, end) for start, end in pairwise(ends)][::-1]
