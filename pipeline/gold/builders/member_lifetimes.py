"""Builds the table `member_lifetimes`: a row for each member id, from its first join to its end."""

from typing import Any, Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.group import Group, GroupKind, MemberId
from regroup.pipeline.gold.builders.table_builder import Transition
from regroup.pipeline.gold.folded_rows import FoldedRows

FOLLOWED: Final = frozenset(
    {
        e.MemberJoined,
        ce.MemberSubscribed,
        e.StaticMemberReplaced,
        ce.StaticConsumerReplaced,
        e.GenerationStarted,
        ce.MemberReconciled,
        e.MemberLeft,
        e.MemberRemoved,
        e.CoordinatorLoaded,
        e.GroupDeleted,
        e.AppendFailed,
    }
)


class MemberLifetimes:
    """Builds the table `member_lifetimes` for one group of either kind.

    If the group changes its kind, its members keep their ids, and so their rows.
    """

    def __init__(self) -> None:
        self._open: dict[MemberId, dict[str, Any]] = {}

    def on_snapshot(self, group: Group, at_ms: int) -> None:
        """Begin rows for the members in a snapshot, which replaces trimmed events.

        A snapshot does not say when a member of the consumer protocol joined; its row begins at `at_ms`.
        """
        for member_id in group.member_ids:
            member = group.members.get(member_id)
            self._begin(group, member_id, member.joined_at_ms if member else at_ms)

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        event, after, at_ms = transition.event, transition.after, transition.at_ms
        if type(event) not in FOLLOWED:
            return
        match event:
            case e.MemberJoined():
                self._begin(after, event.member_id, at_ms)
            case ce.MemberSubscribed() if event.member_id not in transition.before.member_ids:
                self._begin(after, event.member_id, at_ms)
            case e.StaticMemberReplaced():
                self._end(rows, event.replaced_member_id, at_ms, "replaced", event.reason)
                self._begin(after, event.member_id, at_ms, event.replaced_member_id)
            case ce.StaticConsumerReplaced() if event.replaced_member_id != event.member_id:
                self._end(rows, event.member_id, at_ms, "replaced", event.reason)
                self._end(rows, event.replaced_member_id, at_ms, "replaced", event.reason)
                self._begin(after, event.member_id, at_ms, event.replaced_member_id)
            case e.GenerationStarted():
                for member_id in after.members:
                    self._open[member_id]["generations"] += 1
            case ce.MemberReconciled() if transition.before.consumer is not None:
                if event.epoch > transition.before.consumer.members[event.member_id].epoch:
                    self._open[event.member_id]["generations"] += 1
            case e.MemberLeft():
                self._end(rows, event.member_id, at_ms, "left", event.reason)
            case e.MemberRemoved():
                timing = {"last_seen_ms": event.last_seen_ms, "timeout_ms": event.timeout_ms}
                self._end(rows, event.member_id, at_ms, "removed", event.reason, **timing)
            case e.CoordinatorLoaded() | e.GroupDeleted() | e.AppendFailed():
                # The group is what the log holds: it lost some members, and may have a replaced member back.
                for member_id in [each for each in self._open if each not in after.member_ids]:
                    self._end(rows, member_id, at_ms, "lost", "the coordinator's log does not hold the member")
                for member_id in after.member_ids:
                    if member_id not in self._open:
                        self._begin(after, member_id, at_ms)

    def on_end(self, rows: FoldedRows) -> None:
        for row in self._open.values():
            rows.add("member_lifetimes", dict(row))

    def _begin(
        self, group: Group, member_id: MemberId, from_ms: int, replaced_member_id: MemberId | None = None
    ) -> None:
        self._open[member_id] = {
            "member_id": member_id,
            **described(group, member_id),
            "replaced_member_id": replaced_member_id,
            "from_ms": from_ms,
            "ended_by": "open",
            "generations": 0,
        }

    def _end(
        self, rows: FoldedRows, member_id: MemberId, at_ms: int, ended_by: str, reason: str, **timing: int | None
    ) -> None:
        row = self._open.pop(member_id, None)
        if row is not None:
            row |= {"to_ms": at_ms, "ended_by": ended_by, "reason": reason, **timing}
            rows.add("member_lifetimes", row)


def described(group: Group, member_id: MemberId) -> dict[str, Any]:
    """The columns with which a member describes itself: instance id, client id, host, session timeout and protocol.

    The protocol is the member's, since a group of the consumer protocol may have classic members.
    """
    if group.consumer is None:
        member = group.members[member_id]
        instance_id, profile, kind = member.instance_id, member.profile, GroupKind.CLASSIC
        described_by = (profile.client_id, profile.client_host, profile.session_timeout_ms)
    else:
        consumer = group.consumer.members[member_id]
        instance_id, kind = consumer.instance_id, GroupKind.CLASSIC if consumer.is_classic else GroupKind.CONSUMER
        described_by = (consumer.profile.client_id, consumer.profile.client_host, consumer.profile.session_timeout_ms)
    client_id, client_host, session_timeout_ms = described_by
    return {
        "instance_id": instance_id,
        "client_id": client_id,
        "client_host": client_host,
        "session_timeout_ms": session_timeout_ms,
        "protocol": kind.value,
    }
