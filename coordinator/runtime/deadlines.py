"""The deadlines of a group of any kind, computed from its state and from when its members were last seen."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from regroup.coordinator.classic import deadlines as classic
from regroup.coordinator.commands import Deadline, DeadlineKind
from regroup.coordinator.consumer import deadlines as consumer
from regroup.coordinator.consumer.events import GroupEpochBumped, MemberReconciled, TargetAssigned
from regroup.coordinator.events import Event
from regroup.coordinator.group import Group, GroupKind, MemberId
from regroup.coordinator.layered_mapping import changed

ORDER: Final = {kind: index for index, kind in enumerate(DeadlineKind)}

DEADLINES: Final[dict[GroupKind, Callable[[Group, Mapping[MemberId, int]], Iterator[Deadline]]]] = {
    GroupKind.CLASSIC: classic.deadlines,
    GroupKind.CONSUMER: consumer.deadlines,
}

_WITHOUT_DEADLINES: Final = frozenset({GroupEpochBumped, TargetAssigned})


def next_deadline(group: Group, last_seen_ms: Mapping[MemberId, int]) -> Deadline | None:
    """The earliest deadline; of simultaneous ones the first in the order of `DeadlineKind`, then of the members."""
    return min(
        deadlines(group, last_seen_ms), key=lambda deadline: (deadline.at_ms, ORDER[deadline.kind]), default=None
    )


def deadlines(group: Group, last_seen_ms: Mapping[MemberId, int]) -> Iterator[Deadline]:
    """Every deadline of the group.

    `last_seen_ms` says when each member's session timeout last started, in epoch milliseconds. For a member that is not
    in it, the session timeout counts from when the group was loaded.
    """
    return DEADLINES[group.kind](group, last_seen_ms)


def with_changed_members(before: Group, after: Group) -> Group:
    """The group `after` with only those members and new member ids that differ from `before`, as a search for deadlines
    that have become earlier needs it.

    A group may have ten thousand members, and change a thousand times a second.
    """
    if before.kind is not after.kind:
        return after
    if before.consumer is None or after.consumer is None:
        return replace(
            after,
            members=changed(before.members, after.members),
            pending_join_members=changed(before.pending_join_members, after.pending_join_members),
        )
    return replace(
        after, consumer=replace(after.consumer, members=changed(before.consumer.members, after.consumer.members))
    )


def may_bring_deadlines(events: Iterable[Event]) -> bool:
    """Whether a deadline of the group may be earlier after these events. False for the events that each of ten thousand
    members of a group may cause after every rebalance, so that no search follows them."""
    return not all(
        type(each) in _WITHOUT_DEADLINES or (type(each) is MemberReconciled and each.revocation_deadline_ms is None)
        for each in events
    )


def may_expire_earlier(group: Group, seen: Iterable[MemberId], last_seen_ms: Mapping[MemberId, int]) -> bool:
    """Whether a deadline of the group may become earlier because these members were seen, although the group does not
    change."""
    return group.kind is GroupKind.CLASSIC and classic.may_expire_earlier(group, seen, last_seen_ms)
