"""How members of the consumer protocol leave: by a heartbeat, by LeaveGroup, by a timeout."""

from regroup.coordinator.classic.rebalance import rebalance
from regroup.coordinator.commands import DeadlinePassed, EndSession, LeaveGroup, LeavingMember
from regroup.coordinator.consumer.checks import HeartbeatRefusal, refuse_member
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.events import GroupEpochBumped, StaticMemberAway, TargetAssigned
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.migration.downgrade import downgrade, may_downgrade
from regroup.coordinator.consumer.responses import heartbeat_error, left_response
from regroup.coordinator.consumer_group import AWAY_EPOCH, ConsumerGroup
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import MemberLeft, MemberRemoved
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import LeaveGroupResponse, MemberResponse


def leave_with_heartbeat(decision: DecisionBuilder, command: ConsumerGroupHeartbeat) -> Decision:
    """Handle a heartbeat with epoch -1 or -2: the member leaves, or a static member leaves temporarily. As in Kafka,
    the member's present epoch is not checked."""
    consumer = decision.group.consumer
    refused: HeartbeatRefusal | None
    if consumer is None:
        refused = HeartbeatRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
    else:
        refused = refuse_member(consumer, command.member_id, command.instance_id)
    if refused or consumer is None:
        assert refused is not None, "a group that is missing is refused"
        return decision.build(heartbeat_error(refused.code, refused.text))
    if command.member_epoch != AWAY_EPOCH:
        decision.apply(MemberLeft, member_id=command.member_id, reason="ConsumerGroupHeartbeat")
        continue_without(decision, f"{command.member_id} left", command.topics)
    elif not consumer.members[command.member_id].is_away:
        decision.apply(StaticMemberAway, member_id=command.member_id)
    return decision.build_after_pending_appends(left_response(command))


def continue_without(decision: DecisionBuilder, reason: str, topics: TopicsImage) -> None:
    """Complete the removal of members: make the group a classic one if only members of the classic protocol remain and
    the settings allow it, otherwise increase the group epoch."""
    if may_downgrade(decision.settings, consumer_of(decision.group).members.values()):
        downgrade(decision, topics)
        rebalance(decision, f"{reason}, and no member of the consumer protocol remains")
    else:
        bump_after_removal(decision, reason, topics)


def bump_after_removal(decision: DecisionBuilder, reason: str, topics: TopicsImage) -> None:
    """Increase the group epoch after members were removed; the next heartbeat of a remaining member computes a new
    target. If none remains, the target is set empty at once, and the next target need not wait for the assignment
    interval."""
    consumer = consumer_of(decision.group)
    decision.apply(
        GroupEpochBumped,
        group_epoch=consumer.group_epoch + 1,
        metadata_hash=topics.metadata_hash(consumer.subscribed_topics),
        hashed_topics=consumer.subscribed_topics,
        reason=reason,
    )
    if not consumer.members:
        decision.apply(
            TargetAssigned, assignment_epoch=consumer.group_epoch + 1, assigned_at_ms=0, reason="no members remain"
        )


def leave_consumer_group(decision: DecisionBuilder, command: LeaveGroup) -> Decision:
    """Handle a LeaveGroup for a group of the consumer protocol: each named member gets its own error code, and the
    group epoch is increased once, after all were removed."""
    present = consumer_of(decision.group)
    results = [leave(decision, present, leaving) for leaving in command.members]
    left = [each.member_id or each.group_instance_id or "" for each in results if each.error_code == ErrorCode.NONE]
    if left:
        continue_without(decision, f"{', '.join(left)} left", command.topics)
    return decision.build_after_pending_appends(LeaveGroupResponse(members=results))


def leave(decision: DecisionBuilder, present: ConsumerGroup, leaving: LeavingMember) -> MemberResponse:
    """Remove one member that a LeaveGroup names, and return its part of the response, which repeats the ids of the
    request. A static member may be named by its instance id alone.

    `present` is the group before the request, so a member that is named twice gets no error the second time, as in
    Kafka.
    """
    refused = refuse_leave(present, leaving)
    member_id = leaving.member_id or present.static_members.get(leaving.group_instance_id or "", "")
    if refused is None and member_id in consumer_of(decision.group).members:
        decision.apply(MemberLeft, member_id=member_id, reason=leaving.reason)
    return MemberResponse(
        member_id=leaving.member_id,
        group_instance_id=leaving.group_instance_id,
        error_code=refused.code if refused else ErrorCode.NONE,
    )


def refuse_leave(consumer: ConsumerGroup, leaving: LeavingMember) -> HeartbeatRefusal | None:
    if not leaving.member_id and leaving.group_instance_id in consumer.static_members:
        return None
    return refuse_member(consumer, leaving.member_id, leaving.group_instance_id)


def expire_session(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    """Remove a member from which no request arrived within its session timeout, also a static member that has left
    temporarily."""
    timeout_ms = consumer_of(decision.group).members[command.member_id].profile.session_timeout_ms
    remove(
        decision,
        command.member_id,
        command.topics,
        f"session timeout of {timeout_ms} ms expired",
        last_seen_ms=command.last_seen_ms,
        timeout_ms=timeout_ms,
    )


def expire_revocation(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    """Remove a member that has not given up partitions within its rebalance timeout, although it sends heartbeats."""
    remove(decision, command.member_id, command.topics, "did not give up its partitions within the rebalance timeout")


def expire_classic_join(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    """Remove a member of the classic protocol that has not sent JoinGroup within its rebalance timeout."""
    remove(decision, command.member_id, command.topics, "did not send JoinGroup within the rebalance timeout")


def expire_classic_sync(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    """Remove a member of the classic protocol that has not sent SyncGroup within its rebalance timeout."""
    remove(decision, command.member_id, command.topics, "did not send SyncGroup within the rebalance timeout")


def end_session(decision: DecisionBuilder, command: EndSession) -> Decision:
    """End the session of a member now, because a test forces it: the member is removed with the events of a session
    timeout. An unknown member id changes nothing."""
    if command.member_id in consumer_of(decision.group).members:
        remove(decision, command.member_id, command.topics, "its session was ended by a test")
    return decision.build()


def remove(
    decision: DecisionBuilder,
    member_id: str,
    topics: TopicsImage,
    reason: str,
    *,
    last_seen_ms: int | None = None,
    timeout_ms: int | None = None,
) -> None:
    decision.apply(MemberRemoved, member_id=member_id, reason=reason, last_seen_ms=last_seen_ms, timeout_ms=timeout_ms)
    continue_without(decision, f"member {member_id} expired", topics)
