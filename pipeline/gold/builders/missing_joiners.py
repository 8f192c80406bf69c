"""Builds the table `missing_joiners`: members and pending ids that a join phase waited for and that did not join."""

from typing import Any, Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer.migration.events import GroupUpgraded
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, MemberId
from regroup.pipeline.gold.builders.table_builder import Transition
from regroup.pipeline.gold.folded_rows import FoldedRows

ENDINGS: Final = {e.MemberLeft: "left", e.MemberRemoved: "removed"}
"""The events with which a join phase no longer waits for a member, and what the table calls them."""
FOLLOWED: Final = frozenset(
    {
        *ENDINGS,
        e.PendingMemberAdded,
        e.PendingMemberRemoved,
        e.MemberJoined,
        e.RebalanceStarted,
        e.GenerationStarted,
        e.GroupEmptied,
        e.GroupDeleted,
        e.CoordinatorLoaded,
        GroupUpgraded,
    }
)


class MissingJoiners:
    """Builds the table `missing_joiners` for one group. Its rows are added when the generation starts."""

    def __init__(self) -> None:
        self._missing: list[dict[str, Any]] = []
        """The rows of the present join phase, without the columns of the generation that ends it."""
        self._client_ids: dict[MemberId, str] = {}
        """The client id that got each pending member id."""

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        event, before = transition.event, transition.before
        if type(event) not in FOLLOWED:
            return
        match event:
            case e.PendingMemberAdded():
                self._client_ids[event.member_id] = event.client_id
            case e.MemberJoined():
                self._client_ids.pop(event.member_id, None)
            case e.PendingMemberRemoved():
                if waits_for_all(before) and event.member_id in before.pending_join_members:
                    self._add_pending(event.member_id, transition.at_ms, "pending-removed")
                self._client_ids.pop(event.member_id, None)
            case e.MemberLeft() | e.MemberRemoved():
                if waits_for_all(before):
                    self._add_member(before, event.member_id, transition.at_ms, ENDINGS[type(event)])
            case e.GenerationStarted():
                self._end_phase(transition, event, rows)
            case _:
                self._missing = []

    def on_end(self, rows: FoldedRows) -> None:
        return

    def _add_member(self, before: Group, member_id: MemberId, at_ms: int, ended_by: str) -> None:
        """Add a member that leaves or is removed, unless its JoinGroup has come already."""
        member = before.members[member_id]
        if member.awaiting is not AwaitedResponse.JOIN:
            names = {"instance_id": member.instance_id, "client_id": member.profile.client_id}
            self._missing.append({"member_id": member_id, **names, "until_ms": at_ms, "ended_by": ended_by})

    def _add_pending(self, member_id: MemberId, at_ms: int, ended_by: str) -> None:
        names = {"instance_id": None, "client_id": self._client_ids.get(member_id)}
        self._missing.append({"member_id": member_id, **names, "until_ms": at_ms, "ended_by": ended_by})

    def _end_phase(self, transition: Transition, event: e.GenerationStarted, rows: FoldedRows) -> None:
        """Add the rows of the join phase that ends. Ids that are pending at its deadline have not joined either."""
        if waits_for_all(transition.before):
            for member_id in transition.before.pending_join_members:
                self._add_pending(member_id, transition.at_ms, "pending")
        generation = {
            "position": transition.record.position,
            "generation_id": event.generation_id,
            "started_ms": transition.at_ms,
        }
        for row in self._missing:
            rows.add("missing_joiners", generation | row)
        self._missing = []


def waits_for_all(group: Group) -> bool:
    """Whether a join phase runs that ends once every member has joined and no member id is pending.

    The initial rebalance delay waits for no member (KIP-134).
    """
    phase = group.join_phase
    return group.state is GroupState.PREPARING_REBALANCE and phase is not None and not phase.is_initial
