"""The fixed order in which `range` and `roundrobin` walk the members, and who of them may have which topic."""

from collections.abc import Mapping, Sequence

from regroup.assignors.interface import Member
from regroup.protocol.java_order import utf16_order


def static_members_first(members: Mapping[str, Member]) -> list[str]:
    """Member ids: those with a `group.instance.id` sorted by it, then the others sorted by member id."""
    by_id = sorted(members, key=utf16_order)
    if {member.group_instance_id for member in members.values()} == {None}:
        return by_id
    static = {name: instance for name in by_id if (instance := members[name].group_instance_id) is not None}
    in_given_order = [name for name in members if name in static]  # two may share an instance id
    by_instance = sorted(in_given_order, key=lambda name: utf16_order(static[name]))
    return by_instance + [name for name in by_id if name not in static]


def seats_by_topic(order: Sequence[str], members: Mapping[str, Member]) -> dict[str, list[int]]:
    """For each topic the places of its subscribers in `order`; topics come as they are first met among `members`."""
    subscriptions = dict.fromkeys([member.topics for member in members.values()])
    if len(subscriptions) == 1:
        everybody = list(range(len(order)))
        return {topic: everybody for topics in subscriptions for topic in topics}
    by_topic: dict[str, list[int]] = {topic: [] for topics in subscriptions for topic in topics}
    for seat, name in enumerate(order):
        for topic in members[name].topics:
            by_topic[topic].append(seat)
    return by_topic
