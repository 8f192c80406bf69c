"""What a command leads to. A refusal is an answer with a code, never an exception, and may carry events.

decision = decide(settings, group, Heartbeat(...))
decision.answer, decision.events, decision.group
"""

from collections.abc import Callable
from typing import Any, Final

from regroup.coordinator import commands as c
from regroup.coordinator.classic.admin import delete_group, describe_group
from regroup.coordinator.classic.expiry import deadline_passed
from regroup.coordinator.classic.failover import take_over
from regroup.coordinator.classic.heartbeat_leave import heartbeat, leave_group
from regroup.coordinator.classic.join import join_group
from regroup.coordinator.classic.sync import sync_group
from regroup.coordinator.decision import Decision
from regroup.coordinator.group import Group
from regroup.coordinator.offsets.commits import (
    commit_offsets,
    delete_offsets,
    fetch_offsets,
    forget_old_offsets,
    forget_topic,
)
from regroup.coordinator.offsets.log_appends import commit_append, refuse_append
from regroup.coordinator.offsets.transactions import commit_transactional_offsets, end_transaction
from regroup.coordinator.settings import Settings


def decide(settings: Settings, group: Group, command: c.Command) -> Decision:
    """Pure: the same settings, group and command give the same decision."""
    return DECIDE[type(command)](settings, group, command)


DECIDE: Final[dict[type[c.Command], Callable[[Settings, Group, Any], Decision]]] = {
    c.JoinGroup: join_group,
    c.SyncGroup: sync_group,
    c.Heartbeat: heartbeat,
    c.LeaveGroup: leave_group,
    c.CommitOffsets: commit_offsets,
    c.CommitTransactionalOffsets: commit_transactional_offsets,
    c.EndTransaction: end_transaction,
    c.FetchOffsets: fetch_offsets,
    c.DeleteOffsets: delete_offsets,
    c.DescribeGroup: describe_group,
    c.DeleteGroup: delete_group,
    c.DeadlinePassed: deadline_passed,
    c.ForgetOldOffsets: forget_old_offsets,
    c.ForgetTopic: forget_topic,
    c.CommitAppend: commit_append,
    c.RefuseAppend: refuse_append,
    c.TakeOver: take_over,
}
