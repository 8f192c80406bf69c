"""A classic group becomes one of the consumer protocol (`convertToConsumerGroup`, `ConsumerGroup.fromClassicGroup`).

It does so when a member of the consumer protocol joins it. Its own members go on with the classic protocol.
"""

from collections.abc import Callable, Iterable
from functools import cache

from regroup.coordinator import responses
from regroup.coordinator.classic.protocol_vote import CONSUMER_PROTOCOL_TYPE
from regroup.coordinator.consumer.checks import JOIN_EPOCH, HeartbeatRefusal, refuse_request
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.heartbeat import consumer_group_heartbeat, refuse
from regroup.coordinator.consumer.migration.embedded_protocol import partitions_by_id
from regroup.coordinator.consumer.migration.events import GroupUpgraded, UpgradeRefused
from regroup.coordinator.consumer.responses import heartbeat_error
from regroup.coordinator.consumer_group import ClassicMetadata, ConsumerProfile, Partitions, every_partition
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, Member
from regroup.coordinator.offsets.log_batch_size import MAX_BATCH_BYTES
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from regroup.protocol.errors import ErrorCode


class UnsuitableGroup(Exception):
    """Raised if a classic group cannot become one of the consumer protocol; `refusal` is the error for the member of
    the consumer protocol that joins."""

    def __init__(self, refusal: HeartbeatRefusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


def heartbeat_to_classic_group(decision: DecisionBuilder, command: ConsumerGroupHeartbeat) -> Decision:
    """Handle a ConsumerGroupHeartbeat to a classic group, or to a group that does not exist. A group with members
    becomes one of the consumer protocol before the request of a joining member is handled; one without members is
    replaced.

    If the request is refused after that, the group stays classic, but as in Kafka its held requests have been refused
    already.
    """
    group, has_members = decision.group, decision.group.state not in (GroupState.DEAD, GroupState.EMPTY)
    if command.member_epoch != JOIN_EPOCH or not has_members or refuse_request(command):
        return consumer_group_heartbeat(decision, command)
    if refused := refuse_upgrade(decision.settings, group):
        return refuse(group, refused)
    still_classic = DecisionBuilder(decision.settings, group, decision.at_ms, decision.evolve, decision.choose_leader)
    refuse_held_requests(decision)
    refuse_held_requests(still_classic)
    for member in group.members.values():
        if member.awaiting and not member.is_new:  # a new one still has five minutes from its first JoinGroup
            still_classic.touch_session(member.member_id)
    if still_classic.released:
        still_classic.apply(UpgradeRefused, reason=f"{command.member_id} could not join")
    try:
        upgrade(decision, command.topics)
    except UnsuitableGroup as unsuitable:
        return still_classic.build(heartbeat_error(*unsuitable.refusal))
    decided = consumer_group_heartbeat(decision, command)
    if decided.response is not None and not decided.events:
        return still_classic.build(decided.response)
    return decided


def refuse_upgrade(settings: CoordinatorSettings, group: Group) -> HeartbeatRefusal | None:
    """The error if a classic group may not become one of the consumer protocol, by the checks of Kafka's
    `validateOnlineUpgrade` in their order; None if it may."""
    if not settings.group_consumer_migration_policy.allows_upgrade:
        return cannot(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return cannot(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.group_consumer_max_size:
        return cannot(group, "the group size exceeds the consumer group maximum size.")
    return None


def cannot(group: Group, why: str) -> HeartbeatRefusal:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return HeartbeatRefusal(ErrorCode.GROUP_ID_NOT_FOUND, text)


def refuse_held_requests(decision: DecisionBuilder) -> None:
    """Answer held JoinGroups and SyncGroups with REBALANCE_IN_PROGRESS, so that their members send JoinGroup again."""
    again = ErrorCode.REBALANCE_IN_PROGRESS
    for member in decision.group.members.values():
        if member.awaiting is AwaitedResponse.JOIN:
            decision.release(member.awaiting, member.member_id, responses.join_error(again, member.member_id))
        elif member.awaiting is AwaitedResponse.SYNC:
            decision.release(member.awaiting, member.member_id, responses.sync_error(again))


def upgrade(decision: DecisionBuilder, topics: TopicsImage) -> None:
    """Make a classic group with members one of the consumer protocol. Raises UnsuitableGroup.

    Records of the classic group that the log has not committed, except offsets, are committed at once, since the log
    commits its records in order.
    """
    group = decision.group
    refuse_large(group)
    decode = cache(decode_subscription)  # thousands of members may have equal subscriptions
    profiles = {member_id: consumer_profile(group, member, decode) for member_id, member in group.members.items()}
    targets = {member_id: assigned(group, member, topics) for member_id, member in group.members.items()}
    refuse_partitions_given_twice(group, targets.values())
    names = tuple(sorted({name for profile in profiles.values() for name in profile.subscribed_topics}))
    decision.apply(
        GroupUpgraded,
        group_epoch=group.generation_id,
        metadata_hash=topics.metadata_hash(names),
        hashed_topics=names,
        profiles=profiles,
        targets={member_id: target for member_id, target in targets.items() if target},
        reason="a member of the consumer protocol joins",
    )
    for append_number in group.pending_appends.keys() - decision.group.pending_appends.keys():
        decision.complete_append(append_number)
    for member_id in profiles:
        decision.touch_session(member_id)


def refuse_large(group: Group) -> None:
    """Raise UnsuitableGroup if the group's members are larger than one batch of the log: Kafka writes the whole
    upgraded group in one batch."""
    size = sum(
        len(member.assignment) + sum(len(each.metadata) for each in member.profile.supported_protocols)
        for member in group.members.values()
    )
    if size > MAX_BATCH_BYTES:
        text = f"The group's members have more than {MAX_BATCH_BYTES} bytes, the limit of a batch of the log."
        raise UnsuitableGroup(HeartbeatRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, text))


def consumer_profile(group: Group, member: Member, decode: Callable[[bytes], Subscription]) -> ConsumerProfile:
    """The description that a member of a classic group gets in the upgraded group. `decode` decodes its subscription.

    As in Kafka, raises UnsuitableGroup if no assignor was selected yet, if the member no longer supports it, or if its
    subscription cannot be decoded.
    """
    profile, name = member.profile, group.protocol_name
    if name is None or not any(each.name == name for each in profile.supported_protocols):
        text = f"Member {member.member_id} has no subscription for the assignor of the present generation."
        raise UnsuitableGroup(HeartbeatRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, text))
    try:
        subscription = decode(member.metadata(name))
    except MalformedConsumerProtocol:
        raise malformed(group) from None
    return ConsumerProfile(
        instance_id=profile.instance_id,
        rack_id=subscription.rack_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        rebalance_timeout_ms=profile.rebalance_timeout_ms,
        session_timeout_ms=profile.session_timeout_ms,
        subscribed_topics=tuple(sorted(set(subscription.topics))),
        classic=ClassicMetadata(
            session_timeout_ms=profile.session_timeout_ms, supported_protocols=profile.supported_protocols
        ),
    )


def assigned(group: Group, member: Member, topics: TopicsImage) -> Partitions:
    """The partitions that the member was last assigned; empty if it never got an assignment. Raises UnsuitableGroup if
    the assignment cannot be decoded or has user data, which would be lost."""
    if not member.assignment:
        return {}
    try:
        assignment = decode_assignment(member.assignment)
    except MalformedConsumerProtocol:
        raise malformed(group) from None
    if assignment.user_data:
        why = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade."
        )
        raise UnsuitableGroup(cannot(group, why))
    return partitions_by_id(assignment.partitions, topics)


def malformed(group: Group) -> UnsuitableGroup:
    return UnsuitableGroup(cannot(group, "the embedded consumer protocol is malformed."))


def refuse_partitions_given_twice(group: Group, targets: Iterable[Partitions]) -> None:
    """Raise UnsuitableGroup if a leader has assigned one partition to two members, as Kafka fails then."""
    given = [each for target in targets for each in every_partition(target)]
    if len(given) != len(set(given)):
        text = f"The assignment of group {group.group_id} gives a partition to more than one member."
        raise UnsuitableGroup(HeartbeatRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, text))
