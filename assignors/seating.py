"""The fixed order in which `range` and `roundrobin` walk the members, and who of them may have which topic."""

from collections.abc import Mapping, Sequence

from regroup.assignors.interface import Member
from regroup.protocol.java_order import utf16_order


def static_members_first(members: Mapping[str, Member]) -> list[str]:
    """Member ids: those with a `group.instance.id` sorted by it, then the others sorted by member id."""
    by_id = sorted(members, key=utf16_order)
    static = {name: instance for name in by_id if (instance := members[name].group_instance_id) is not None}
    if not static:
        return by_id
    in_given_order = [name for name in members if name in static]  # two may share an instance id
    by_instance = sorted(in_given_order, key=lambda name: utf16_order(static[name]))
    return by_instance + [name for name in by_id if name not in static]


def seats_by_topic(order: Sequence[str], members: Mapping[str, Member]) -> dict[str, tuple[int, ...]]:
    """For each topic the places of its subscribers in `order`. Members that subscribe alike are looked at once."""
    seats_of: dict[tuple[str, ...], list[int]] = {}
    for seat, member in enumerate(order):
        seats_of.setdefault(members[member].topics, []).append(seat)
    if len(seats_of) == 1:
        return {topic: tuple(seats) for topics, seats in seats_of.items() for topic in topics}
    by_topic: dict[str, set[int]] = {}
    for topics, seats in seats_of.items():
        for topic in topics:
            by_topic.setdefault(topic, set()).update(seats)
    return {topic: tuple(sorted(seats)) for topic, seats in by_topic.items()}
