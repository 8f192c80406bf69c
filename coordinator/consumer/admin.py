"""Looking at a group of the consumer protocol, deleting it, loading it; and requests of the classic protocol to it."""

from msgspec.structs import replace

from regroup.coordinator.commands import (
    Command,
    DeleteGroup,
    DescribeGroup,
    LoadGroup,
)
from regroup.coordinator.consumer.commands import ConsumerGroupDescribe
from regroup.coordinator.consumer.events import MemberSubscribed
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.responses import described_group
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import CoordinatorLoaded, GroupDeleted
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.describe import DeletableGroupResult, DescribedConsumerGroup, DescribedGroup

NOT_CLASSIC = "Dead"
"""The state in which DescribeGroups shows a group that is not classic."""


def describe_consumer_group(decision: DecisionBuilder, command: ConsumerGroupDescribe) -> Decision:
    """Answer ConsumerGroupDescribe with the group's epochs, members and targets. A group that does not exist, or is a
    classic one, is answered with GROUP_ID_NOT_FOUND."""
    consumer = decision.group.consumer
    if consumer is None:
        is_other_kind = decision.group.exists
        text = f"Group {command.group_id} " + ("is not a consumer group." if is_other_kind else "not found.")
        missing = DescribedConsumerGroup(
            group_id=command.group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text
        )
        return decision.build(missing)
    return decision.build(described_group(command.group_id, consumer, command.topics))


def describe_as_classic_group(decision: DecisionBuilder, command: DescribeGroup) -> Decision:
    """Answer DescribeGroups for a group of the consumer protocol, which that API cannot show: in state Dead, with a
    text that says that the group is not a classic one."""
    text = f"Group {command.group_id} is not a classic group."
    return decision.build(DescribedGroup(group_id=command.group_id, group_state=NOT_CLASSIC, error_message=text))


def delete_consumer_group(decision: DecisionBuilder, command: DeleteGroup) -> Decision:
    """Delete a group without members, and its offsets. A static member that has left temporarily counts as a member."""
    code = ErrorCode.NON_EMPTY_GROUP
    if not consumer_of(decision.group).members:
        code = ErrorCode.NONE
        pending = tuple(decision.group.pending_appends)
        decision.apply(GroupDeleted, reason="DeleteGroups")
        for append_number in pending:
            decision.complete_append(append_number)
    return decision.build_after_pending_appends(DeletableGroupResult(group_id=command.group_id, error_code=code))


def load_consumer_group(decision: DecisionBuilder, command: LoadGroup) -> Decision:
    """Load a group of the consumer protocol in a new coordinator. All its timeouts start again in full; session
    timeouts have the length that is configured now."""
    lost = ("records that Kafka's log had written and not committed",) if decision.group.pending_appends else ()
    decision.apply(CoordinatorLoaded, subscribed_topics=(), lost=lost)
    timeout_ms = decision.settings.group_consumer_session_timeout_ms
    for member_id, member in consumer_of(decision.group).members.items():
        if member.profile.session_timeout_ms != timeout_ms:
            profile = replace(member.profile, session_timeout_ms=timeout_ms)
            decision.apply(MemberSubscribed, member_id=member_id, profile=profile, reason="another session timeout")
        decision.touch_session(member_id)
    return decision.build()


def change_nothing(decision: DecisionBuilder, command: Command) -> Decision:
    """Handle a change that a test forces and that only classic groups can make, such as StartRebalance: a group of the
    consumer protocol stays as it is."""
    return decision.build()
