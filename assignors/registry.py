"""Finds assignors by name: Kafka's own, and those of installed packages.

A package offers an assignor by an entry point that names its class:

    [project.entry-points."regroup.assignors"]
    nearest-first = "my_package.assignors:NearestFirst"
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import entry_points

from regroup.assignors.interface import Assignments, Assignor, AssignorError, AssignorMember, ClusterMetadata
from regroup.assignors.range_assignor import RangeAssignor
from regroup.assignors.round_robin import RoundRobinAssignor
from regroup.assignors.sticky.assignor import CooperativeStickyAssignor, StickyAssignor
from regroup.assignors.sticky.before_2_6 import StickyBefore26Assignor

__all__ = ["assignor_named", "assign_checked"]

ENTRY_POINT_GROUP = "regroup.assignors"

BUILT_IN: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "sticky-before-2.6": StickyBefore26Assignor,
}


_offered: ContextVar[Assignor | None] = ContextVar("_offered", default=None)


@contextmanager
def offering(assignor: Assignor | None) -> Iterator[None]:
    """Within the `with` block, make one more assignor available by its name, to the code in this thread or task. None
    adds nothing."""
    token = _offered.set(assignor)
    try:
        yield
    finally:
        _offered.reset(token)


def assignor_named(name: str, also_known: Iterable[str] = ()) -> Assignor:
    """A new assignor with this name. Raises `AssignorError` if there is none or it cannot be loaded; `also_known` are
    other names that its text lists."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if (own := _offered.get()) is not None and own.name == name:
        return own
    offered = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in offered:
        names = ", ".join(sorted({*BUILT_IN, *offered, *also_known}))
        raise AssignorError(
            f"unknown assignor {name!r}; assignors: {names}; packages add more by entry points of {ENTRY_POINT_GROUP}"
        )
    try:
        assignor = offered[name].load()()
    except Exception as error:
        raise AssignorError(f"assignor {name} cannot be loaded from {offered[name].value}: {error!r}") from error
    if not isinstance(assignor, Assignor):
        raise AssignorError(f"{offered[name].value} is not an assignor: it must inherit from {Assignor.__qualname__}")
    return assignor


def assign_checked(assignor: Assignor, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
    """Run an assignor of another package and check its result.

    Raises `AssignorError`, with member and topic, if it raised an exception, left out a member or invented one, or
    assigned a partition that does not exist, that its member is not subscribed to, or that another member has.
    Kafka's own assignors are not checked, because in rare cases they do such things (see docs/assignors.md).
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
            raise AssignorError(
                f"assignor {assignor.name} assigned partitions to {name}, which is not a member", member=name
            )
        for topic, number in partitions:
            problem = _problem(cluster, members[name], topic, number, owners.get((topic, number)))
            if problem:
                reason = (
                    f"assignor {assignor.name} assigned member {name} partition {number} of topic {topic}, {problem}"
                )
                raise AssignorError(reason, member=name, topic=topic)
            owners[topic, number] = name
    return assignments


def _problem(
    cluster: ClusterMetadata, member: AssignorMember, topic: str, number: int, owner: str | None
) -> str | None:
    count = cluster.partitions_per_topic.get(topic, 0)
    if not 0 <= number < count:
        return f"which does not exist: the topic has {count} partitions"
    if topic not in member.topics:
        return "to which it is not subscribed"
    return None if owner is None else f"which member {owner} has already"
