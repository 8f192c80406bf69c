"""The deadlines of a group of any kind, computed from its state and from when its members were last seen."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress
from operator import is_not
from typing import Final, TypeVar

from msgspec.structs import replace

from regroup.coordinator.classic import deadlines as classic
from regroup.coordinator.commands import Deadline, DeadlineKind
from regroup.coordinator.consumer import deadlines as consumer
from regroup.coordinator.group import Group, GroupKind, MemberId

Value = TypeVar("Value")

ORDER: Final = {kind: index for index, kind in enumerate(DeadlineKind)}

DEADLINES: Final[dict[GroupKind, Callable[[Group, Mapping[MemberId, int]], Iterator[Deadline]]]] = {
    GroupKind.CLASSIC: classic.deadlines,
    GroupKind.CONSUMER: consumer.deadlines,
}


def next_deadline(group: Group, last_seen_ms: Mapping[MemberId, int]) -> Deadline | None:
    """The earliest deadline; of simultaneous ones the first in the order of `DeadlineKind`, then of the members."""
    return min(
        deadlines(group, last_seen_ms), key=lambda deadline: (deadline.at_ms, ORDER[deadline.kind]), default=None
    )


def deadlines(group: Group, last_seen_ms: Mapping[MemberId, int]) -> Iterator[Deadline]:
    """Every deadline of the group.

    `last_seen_ms` says when each member's session timeout last started, in epoch milliseconds. A member that is
    missing has not been seen since the group was loaded: the time of the load counts.
    """
    return DEADLINES[group.kind](group, last_seen_ms)


def with_changed_members(before: Group, after: Group) -> Group:
    """The group with those of its members only that are others than before: the deadlines of the rest are the same.

    A group may have ten thousand members, and change a thousand times a second.
    """
    if before.kind is not after.kind:
        return after
    if before.consumer is None or after.consumer is None:
        return replace(after, members=changed(before.members, after.members))
    return replace(
        after, consumer=replace(after.consumer, members=changed(before.consumer.members, after.consumer.members))
    )


def changed(before: Mapping[MemberId, Value], after: Mapping[MemberId, Value]) -> dict[MemberId, Value]:
    return dict(compress(after.items(), map(is_not, after.values(), map(before.get, after))))


def may_expire_earlier(group: Group, seen: Iterable[MemberId], last_seen_ms: Mapping[MemberId, int]) -> bool:
    """Whether a deadline of the group may become earlier because these members were seen, although the group does not
    change."""
    return group.kind is GroupKind.CLASSIC and classic.may_expire_earlier(group, seen, last_seen_ms)
