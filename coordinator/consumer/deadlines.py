"""The deadlines of a group of the consumer protocol, computed from its state and from when its members were seen."""

from collections.abc import Iterator, Mapping

from regroup.coordinator.commands import Deadline, DeadlineKind
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.group import Group


def deadlines(group: Group, last_seen_ms: Mapping[str, int]) -> Iterator[Deadline]:
    """Every deadline of the group: its members' session timeouts, and the rebalance timeouts of members that were asked
    to give up partitions, to join or to sync.

    `last_seen_ms` says when each member's session timeout last started, in epoch milliseconds. For a member that is not
    in it, the session timeout counts from when the group was loaded.
    """
    for member_id, member in consumer_of(group).members.items():
        seen_ms = last_seen_ms.get(member_id, group.loaded_at_ms)
        yield Deadline(seen_ms + member.profile.session_timeout_ms, DeadlineKind.SESSION, member_id, seen_ms)
        if member.revocation_deadline_ms is not None:
            yield Deadline(member.revocation_deadline_ms, DeadlineKind.REVOCATION, member_id)
        if member.join_deadline_ms is not None:
            yield Deadline(member.join_deadline_ms, DeadlineKind.CLASSIC_JOIN, member_id)
        if member.sync_deadline_ms is not None:
            yield Deadline(member.sync_deadline_ms, DeadlineKind.CLASSIC_SYNC, member_id)
    for append in group.pending_appends.values():
        if not append.has_timed_out:
            yield Deadline(append.deadline_ms, DeadlineKind.LOG_APPEND)
