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
    """A group that is missing, or classic, is an error."""
    consumer = decision.group.consumer
    if consumer is None:
        text = f"Group {command.group_id} not found."
        missing = DescribedConsumerGroup(
            group_id=command.group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text
        )
        return decision.build(missing)
    return decision.build(described_group(command.group_id, consumer, command.topics))


def describe_as_classic_group(decision: DecisionBuilder, command: DescribeGroup) -> Decision:
    """DescribeGroups does not show groups of the consumer protocol."""
    text = f"Group {command.group_id} is not a classic group."
    return decision.build(DescribedGroup(group_id=command.group_id, group_state=NOT_CLASSIC, error_message=text))


def delete_consumer_group(decision: DecisionBuilder, command: DeleteGroup) -> Decision:
    """Delete a group without members, and its offsets; a static member that is away is a member."""
    code = ErrorCode.NON_EMPTY_GROUP
    if not consumer_of(decision.group).members:
        code = ErrorCode.NONE
        pending = tuple(decision.group.pending_appends)
        decision.apply(GroupDeleted, reason="DeleteGroups")
        for append_number in pending:
            decision.complete_append(append_number)
    return decision.build_after_pending_appends(DeletableGroupResult(group_id=command.group_id, error_code=code))


def load_consumer_group(decision: DecisionBuilder, command: LoadGroup) -> Decision:
    """Every timeout starts again in full, session timeouts with the present setting."""
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
    """A change that a test forces, and that does not fit this kind of group."""
    return decision.build()
