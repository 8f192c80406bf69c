"""Explanations of an event, of the last thing that happened to a member, and of the last rebalance.

history = await read_known_history(store, "billing")
for explanation in explain_group(history):          # or explain_member(history, "second"), explain_event(history, 120)
    print(explanation)
"""

from collections.abc import Callable
from typing import Any, Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.server.explanation import membership, migrations, offsets, rebalances, reconciliations
from regroup.server.explanation.further_events import CLAUSES, explain_further_event
from regroup.server.explanation.history import GroupHappening, KnownHistory
from regroup.server.explanation.refused_joins import HOW_TO_SEE_REFUSALS, explain_refused_joins
from regroup.server.explanation.sentences import NOT_RECORDED, Explanation, reason, time_text
from regroup.server.explanation.stays import explain_earlier_stays, explain_rejoins, names_in, stays_of


class CannotExplain(LookupError):
    """Raised when the event, member or rebalance that is to be explained is not in the history."""


Explain = Callable[[KnownHistory, GroupHappening, Any], Explanation]


def _explain_load(history: KnownHistory, happening: GroupHappening, event: e.CoordinatorLoaded) -> Explanation:
    index = history.happenings.index(happening)
    before = history.happenings[index - 1] if index else None
    if before is not None and history.began_a_process(happening, before):
        why = "regroup was started again"
    else:
        why = f"its broker became the coordinator, or the store was opened again; which of them is {NOT_RECORDED}"
    return Explanation(
        sentence=f"a coordinator loaded the group at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(reason(why),),
        notes=tuple(f"lost: {each}" for each in event.lost),
    )


EXPLAIN: Final[dict[type[e.Event], Explain]] = {
    e.MemberRemoved: membership.explain_removal,
    e.MemberLeft: membership.explain_leave,
    e.MemberJoined: membership.explain_join,
    e.StaticMemberReplaced: membership.explain_replacement,
    e.PendingMemberAdded: membership.explain_new_member_id,
    e.PendingMemberRemoved: membership.explain_dropped_member_id,
    e.MemberRejoined: rebalances.explain_rejoin,
    e.RebalanceStarted: rebalances.explain_rebalance,
    e.GenerationStarted: rebalances.explain_generation,
    e.AssignmentCommitted: lambda history, happening, _: rebalances.explain_assignment(history, happening),
    e.CoordinatorLoaded: _explain_load,
    ce.MemberSubscribed: reconciliations.explain_subscription,
    ce.GroupEpochBumped: reconciliations.explain_bump,
    ce.TargetAssigned: reconciliations.explain_target,
    ce.MemberReconciled: reconciliations.explain_step,
    ce.StaticMemberAway: reconciliations.explain_away,
    ce.StaticConsumerReplaced: reconciliations.explain_return,
    me.GroupUpgraded: migrations.explain_upgrade,
    me.UpgradeRefused: migrations.explain_refused_upgrade,
    me.GroupDowngraded: migrations.explain_downgrade,
    me.ClassicMemberJoined: migrations.explain_classic_join,
    me.ClassicMemberSynced: migrations.explain_classic_sync,
    me.RejoinRequested: migrations.explain_rejoin_request,
    e.OffsetsDeleted: offsets.explain_deleted_offsets,
    e.TransactionEnded: offsets.explain_transaction_end,
    **dict.fromkeys(CLAUSES, explain_further_event),
}
"""The function that explains the events of each type."""
_MEMBER_EVENTS: Final = (
    e.PendingMemberAdded, e.PendingMemberRemoved, e.MemberJoined, e.MemberLeft, e.MemberRemoved,
    e.StaticMemberReplaced, ce.MemberSubscribed, ce.MemberReconciled, ce.StaticMemberAway, ce.StaticConsumerReplaced,
    me.RejoinRequested,
)  # fmt: skip


def explain_event(history: KnownHistory, position: int) -> list[Explanation]:
    """Explain why the event at this position in the store happened. Raises CannotExplain if no event of the group has
    this position."""
    index = history.index_of(position)
    if index is None:
        raise CannotExplain(f"position {position} has no event of group {history.group_id!r}{history.beginning}")
    happening = history.happenings[index]
    explanations = [_explain(history, index)]
    if isinstance(happening.event, e.GenerationStarted):
        explanations.append(rebalances.explain_leader(history, happening, happening.event))
    return explanations


def _explain(history: KnownHistory, index: int) -> Explanation:
    happening = history.happenings[index]
    return EXPLAIN[type(happening.event)](history, happening, happening.event)


def explain_member(history: KnownHistory, name: str) -> list[Explanation]:
    """The last thing that happened to a member in its latest stay, its earlier stays, which of its requests were
    refused afterwards, and which joins were refused after which it did not become a member.

    `name` is a member id, an instance id or a client id; a client has a new member id in each stay. Raises
    CannotExplain.
    """
    member_ids = history.member_ids_of(name)
    not_joined = list(
        explain_refused_joins(history, lambda each: name == each.client_id or name in each.members, member_ids)
    )
    if not member_ids:
        if not_joined:
            return not_joined
        hint = "" if history.has_recording else f": {HOW_TO_SEE_REFUSALS}"
        raise CannotExplain(
            f"no member of group {history.group_id!r} is called {name!r} in this history{history.beginning}{hint}"
        )
    *earlier, latest = stays_of(history, member_ids)
    for index in range(len(history.happenings) - 1, -1, -1):
        happening = history.happenings[index]
        if isinstance(happening.event, _MEMBER_EVENTS) and latest.member_id in names_in(happening.event):
            last = _explain(history, index)
            refused = list(membership.explain_refusals(history, member_ids, last))
            if not refused and not history.has_recording:
                refused = [reason(f"whether requests of it were refused after that is {NOT_RECORDED}")]
            rejoins, before = explain_rejoins(history, latest, happening), explain_earlier_stays(history, earlier, last)
            return [last, *rejoins, *before, *refused, *not_joined]
    raise CannotExplain(f"nothing happened to {name!r} in this history{history.beginning}")


def explain_group(history: KnownHistory) -> list[Explanation]:
    """Explain the last rebalance of the group, or its last reconciliation: why it started, how it ended, and who leads;
    and which joins were refused since it started. Raises CannotExplain if there was none of these."""
    end = len(history.happenings)
    last = history.last_before(end, e.RebalanceStarted, *reconciliations.STARTS)
    if last is not None and isinstance(history.happenings[last].event, reconciliations.STARTS):
        explanations = reconciliations.explain_whole_reconciliation(history, last)
    else:
        explanations = rebalances.explain_whole_rebalance(history)
    since_ms = 0 if last is None else history.happenings[last].at_ms
    explanations = [*explanations, *explain_refused_joins(history, lambda each: each.at_ms >= since_ms)]
    if not explanations:
        raise CannotExplain(f"group {history.group_id!r} has no rebalance in this history{history.beginning}")
    return explanations
