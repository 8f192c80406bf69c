"""The fixed order in which `range` and `roundrobin` walk the members, and who of them may have which topic."""

from collections.abc import Mapping, Sequence

from regroup.assignors.interface import Member
from regroup.protocol.java_order import utf16_order


def static_members_first(members: Mapping[str, Member]) -> list[str]:
    """Member ids: those with a `group.instance.id` sorted by it, then the others sorted by member id."""
    by_id = sorted(members, key=utf16_order)
    # As they were given, since two may share an instance id.
    static = {name: each for name, member in members.items() if (each := member.group_instance_id) is not None}
    if not static:
        return by_id
    by_instance = sorted(static, key=lambda name: utf16_order(static[name]))
    return by_instance + [name for name in by_id if name not in static]


def seats_by_topic(order: Sequence[str], members: Mapping[str, Member]) -> dict[str, list[int]]:
    """For each topic the places of its subscribers in `order`; topics come as they are first met among `members`."""
    subscriptions = {member.topics: None for member in members.values()}
    if len(subscriptions) == 1:
        everybody = list(range(len(order)))
        return {topic: everybody for topics in subscriptions for topic in topics}
    by_topic: dict[str, list[int]] = {topic: [] for topics in subscriptions for topic in topics}
    for seat, name in enumerate(order):
        for topic in members[name].topics:
            by_topic[topic].append(seat)
    return by_topic
