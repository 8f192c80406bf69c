"""The fixed order in which `range` and `roundrobin` walk the members, and who of them may have which topic."""

from collections.abc import Mapping, Sequence

from regroup.assignors.interface import Member
from regroup.protocol.java_order import utf16_order


def static_members_first(members: Mapping[str, Member]) -> list[str]:
    """Member ids: those with a `group.instance.id` sorted by it, then the others sorted by member id."""

    def rank(member_id: str) -> tuple[bool, bytes]:
        instance = members[member_id].group_instance_id
        return instance is None, utf16_order(member_id if instance is None else instance)

    return sorted(members, key=rank)


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
