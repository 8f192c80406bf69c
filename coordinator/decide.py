"""Deciding what follows from a command. A refusal is a response with an error code, never an exception.

decision = decide(settings, group, Heartbeat(...))
decision.response, decision.events, decision.group
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from regroup.coordinator import commands as c
from regroup.coordinator.classic.admin import delete_group, describe_group
from regroup.coordinator.classic.expiry import (
    expire_new_member,
    expire_pending_member,
    expire_session,
    join_phase_deadline_passed,
    sync_phase_deadline_passed,
)
from regroup.coordinator.classic.failover import load_group
from regroup.coordinator.classic.forced import (
    complete_join_phase_now,
    end_session,
    forget_offsets,
    raise_generation,
    start_rebalance,
)
from regroup.coordinator.classic.heartbeat_leave import heartbeat, leave_group
from regroup.coordinator.classic.join import join_group
from regroup.coordinator.classic.log_appends import append_deadline_passed, complete_append, fail_append
from regroup.coordinator.classic.offset_rules import ClassicOffsetRules
from regroup.coordinator.classic.sync import sync_group
from regroup.coordinator.classic.transitions import check_transition
from regroup.coordinator.consumer import admin, leaving
from regroup.coordinator.consumer import commands as cc
from regroup.coordinator.consumer.heartbeat import consumer_group_heartbeat
from regroup.coordinator.consumer.migration.classic_members import (
    heartbeat_to_consumer_group,
    join_consumer_group,
    sync_with_consumer_group,
)
from regroup.coordinator.consumer.migration.upgrade import heartbeat_to_classic_group
from regroup.coordinator.consumer.offset_rules import ConsumerOffsetRules
from regroup.coordinator.consumer.regexes import resolve_regexes
from regroup.coordinator.decision import Decision, DecisionBuilder, LeaderPolicy, first_candidate
from regroup.coordinator.events import CoordinatorLoaded, Event
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, GroupKind
from regroup.coordinator.offsets.commits import (
    delete_topic_offsets,
    expire_offsets,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from regroup.coordinator.offsets.rules import OffsetRules
from regroup.coordinator.offsets.transactions import end_transaction, txn_offset_commit
from regroup.coordinator.settings import CoordinatorSettings

__all__ = ["decide"]


def decide(
    settings: CoordinatorSettings, group: Group, command: c.Command, choose_leader: LeaderPolicy = first_candidate
) -> Decision:
    """Handle one command: returns the decision, which has the response, the events and the group after them.
    `choose_leader` selects a classic group's leader. The function is pure: the same arguments always give the same
    decision."""
    return HANDLERS_BY_KIND[group.kind][type(command)](
        DecisionBuilder(settings, group, command.at_ms, evolve_checked, choose_leader), command
    )


def evolve_checked(group: Group, event: Event) -> Group:
    """The group after the event; raises IllegalTransition for a defect of the coordinator.

    A load may lead to any state: what the previous coordinator held in memory is lost.
    """
    after = evolve(group, event)
    if after.state is not group.state and group.kind is after.kind and not isinstance(event, CoordinatorLoaded):
        check_transition(group.state, after.state)
    return after


def deadline_passed(decision: DecisionBuilder, command: c.DeadlinePassed) -> Decision:
    """Handle a deadline of the group that has passed, by its kind. The coordinator sends this command only for the
    deadline that `next_deadline` returns at this time."""
    DEADLINE_HANDLERS[command.kind][decision.group.kind](decision, command)
    return decision.build()


def offset_handlers(rules: OffsetRules) -> dict[type[c.Command], Callable[[DecisionBuilder, Any], Decision]]:
    """The handlers of all commands about offsets, by type of command, for groups with these offset rules."""
    return {
        c.OffsetCommit: partial(offset_commit, rules),
        c.TxnOffsetCommit: partial(txn_offset_commit, rules),
        c.EndTransaction: end_transaction,
        c.OffsetFetch: partial(offset_fetch, rules),
        c.OffsetDelete: partial(offset_delete, rules),
        c.ExpireOffsets: partial(expire_offsets, rules),
        c.DeleteTopicOffsets: delete_topic_offsets,
    }


CLASSIC, CONSUMER = GroupKind.CLASSIC, GroupKind.CONSUMER

DEADLINE_HANDLERS: Final[dict[c.DeadlineKind, dict[GroupKind, Callable[[DecisionBuilder, c.DeadlinePassed], None]]]] = {
    c.DeadlineKind.JOIN_PHASE: {CLASSIC: join_phase_deadline_passed},
    c.DeadlineKind.SYNC_PHASE: {CLASSIC: sync_phase_deadline_passed},
    c.DeadlineKind.SESSION: {CLASSIC: expire_session, CONSUMER: leaving.expire_session},
    c.DeadlineKind.NEW_MEMBER_JOIN: {CLASSIC: expire_new_member},
    c.DeadlineKind.PENDING_JOIN: {CLASSIC: expire_pending_member},
    c.DeadlineKind.REVOCATION: {CONSUMER: leaving.expire_revocation},
    c.DeadlineKind.CLASSIC_JOIN: {CONSUMER: leaving.expire_classic_join},
    c.DeadlineKind.CLASSIC_SYNC: {CONSUMER: leaving.expire_classic_sync},
    c.DeadlineKind.LOG_APPEND: {CLASSIC: append_deadline_passed, CONSUMER: append_deadline_passed},
}
"""What follows from a deadline, for the kinds of group that have it."""

HANDLERS: Final[dict[type[c.Command], Callable[[DecisionBuilder, Any], Decision]]] = {
    c.JoinGroup: join_group,
    c.SyncGroup: sync_group,
    c.Heartbeat: heartbeat,
    c.LeaveGroup: leave_group,
    **offset_handlers(ClassicOffsetRules()),
    c.DescribeGroup: describe_group,
    c.DeleteGroup: delete_group,
    c.DeadlinePassed: deadline_passed,
    c.CompleteAppend: complete_append,
    c.FailAppend: fail_append,
    c.LoadGroup: load_group,
    cc.ConsumerGroupHeartbeat: heartbeat_to_classic_group,
    cc.ConsumerGroupDescribe: admin.describe_consumer_group,
    cc.ResolveRegexes: resolve_regexes,
    c.EndSession: end_session,
    c.StartRebalance: start_rebalance,
    c.CompleteJoinPhase: complete_join_phase_now,
    c.RaiseGeneration: raise_generation,
    c.ForgetOffsets: forget_offsets,
}
"""Commands to classic groups, and to groups that do not exist."""

CONSUMER_HANDLERS: Final[dict[type[c.Command], Callable[[DecisionBuilder, Any], Decision]]] = {
    cc.ConsumerGroupHeartbeat: consumer_group_heartbeat,
    cc.ConsumerGroupDescribe: admin.describe_consumer_group,
    cc.ResolveRegexes: resolve_regexes,
    c.JoinGroup: join_consumer_group,
    c.SyncGroup: sync_with_consumer_group,
    c.Heartbeat: heartbeat_to_consumer_group,
    c.LeaveGroup: leaving.leave_consumer_group,
    **offset_handlers(ConsumerOffsetRules()),
    c.DescribeGroup: admin.describe_as_classic_group,
    c.DeleteGroup: admin.delete_consumer_group,
    c.DeadlinePassed: deadline_passed,
    c.CompleteAppend: complete_append,
    c.FailAppend: fail_append,
    c.LoadGroup: admin.load_consumer_group,
    c.EndSession: leaving.end_session,
    c.StartRebalance: admin.change_nothing,
    c.CompleteJoinPhase: admin.change_nothing,
    c.RaiseGeneration: admin.change_nothing,
    c.ForgetOffsets: forget_offsets,
}
"""Commands to groups of the consumer protocol."""

HANDLERS_BY_KIND: Final = {CLASSIC: HANDLERS, CONSUMER: CONSUMER_HANDLERS}
