"""Bugs in what responses to classic members and administrators contain."""

from typing import Any

from msgspec.structs import replace

from regroup.coordinator.classic import admin, heartbeat_leave
from regroup.coordinator.commands import DescribeGroup, LeaveGroup
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.offsets import commits
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, patch_handler, planted_bug
from regroup.server.log.partition_log import PartitionLog


def _with_fewer_members(decision: Decision, kept: int) -> Decision:
    response: Any = decision.response
    return replace(decision, response=replace(response, members=response.members[:kept]))


@planted_bug
def leave_response_names_no_member() -> BugContext:
    """LeaveGroup is carried out, and its response has no entry for the members that leave."""

    def leave(builder: DecisionBuilder, command: LeaveGroup) -> Decision:
        return _with_fewer_members(heartbeat_leave.leave_group(builder, command), 0)

    return patch_handler(LeaveGroup, leave)


@planted_bug
def description_leaves_a_member_out() -> BugContext:
    """DescribeGroups does not show the member that joined last."""

    def describe(builder: DecisionBuilder, command: DescribeGroup) -> Decision:
        return _with_fewer_members(admin.describe_group(builder, command), -1)

    return patch_handler(DescribeGroup, describe)


@planted_bug
def stable_fetch_returns_older_offsets() -> BugContext:
    """An OffsetFetch with `require_stable` waits for Kafka's log, and gets the offsets from before what it has waited
    for."""
    return patch_attribute(commits, "offsets_with_pending_appends", lambda group: group.committed_offsets)


@planted_bug
def fetch_leaves_the_first_batch_out() -> BugContext:
    """A Fetch response that has three or more batches of a partition to return leaves out the first of them."""
    right = PartitionLog.read

    def read(log: PartitionLog, offset: int, **limits: Any) -> list[bytes]:
        batches = right(log, offset, **limits)
        return batches[1:] if len(batches) > 2 else batches

    return patch_attribute(PartitionLog, "read", read)
