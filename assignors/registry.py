"""Assignors by name: Kafka's own, and those that an installed package offers.

A package offers one of its own by an entry point that names its class:

    [project.entry-points."regroup.assignors"]
    nearest-first = "my_package.assignors:NearestFirst"
"""

from collections.abc import Mapping
from importlib.metadata import entry_points

from regroup.assignors.interface import Assignments, Assignor, AssignorError, Cluster, Member
from regroup.assignors.range_assignor import RangeAssignor
from regroup.assignors.round_robin import RoundRobinAssignor
from regroup.assignors.sticky.assignor import CooperativeStickyAssignor, StickyAssignor
from regroup.assignors.sticky.before_2_6 import StickyBefore26Assignor

ENTRY_POINTS = "regroup.assignors"

BUILT_IN: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "sticky-before-2.6": StickyBefore26Assignor,
}


def assignor_named(name: str) -> Assignor:
    """A new assignor; raises `AssignorError` if there is none of this name or it cannot be loaded."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    offered = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in offered:
        known = ", ".join(sorted({*BUILT_IN, *offered}))
        raise AssignorError(f"there is no assignor {name}; known are {known}, more by entry point {ENTRY_POINTS}")
    try:
        assignor = offered[name].load()()
    except Exception as error:
        raise AssignorError(f"assignor {name} cannot be loaded from {offered[name].value}: {error!r}") from error
    if not isinstance(assignor, Assignor):
        raise AssignorError(f"{offered[name].value} is no assignor: it must inherit from {Assignor.__qualname__}")
    return assignor


def assign_checked(assignor: Assignor, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
    """Let an assignor deal and believe nothing: for one that a user wrote.

    Raises `AssignorError`, naming member and topic, if it raised anything, left a member out or made one up, or gave
    out a partition that does not exist, that its member did not ask for, or that another has got already. Kafka's own
    classes are not held to this, because now and then they do such things (see the guide).
    """
    try:
        assignments = assignor.assign(cluster, members)
    except AssignorError:
        raise
    except Exception as error:
        raise AssignorError(f"assignor {assignor.name} raised {error!r}") from error
    for name in members:
        if name not in assignments:
            raise AssignorError(f"assignor {assignor.name} left out member {name}", member=name)
    owners: dict[tuple[str, int], str] = {}
    for name, partitions in assignments.items():
        if name not in members:
            raise AssignorError(f"assignor {assignor.name} gave partitions to {name}, who is no member", member=name)
        for topic, number in partitions:
            problem = _problem(cluster, members[name], topic, number, owners.get((topic, number)))
            if problem:
                reason = f"assignor {assignor.name} gave member {name} partition {number} of topic {topic}, {problem}"
                raise AssignorError(reason, member=name, topic=topic)
            owners[topic, number] = name
    return assignments


def _problem(cluster: Cluster, member: Member, topic: str, number: int, owner: str | None) -> str | None:
    count = cluster.partitions_per_topic.get(topic, 0)
    if not 0 <= number < count:
        return f"which does not exist: the topic has {count} partitions"
    if topic not in member.topics:
        return "to which it is not subscribed"
    return None if owner is None else f"which member {owner} has got already"
