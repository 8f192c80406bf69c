"""Members of the classic protocol in a group of the consumer protocol: JoinGroup, SyncGroup and Heartbeat.

The coordinator assigns for them, too. A JoinGroup does what a heartbeat of the consumer protocol does, and is answered
at once; SyncGroup fetches what the member is assigned; Heartbeat says when it is to join again.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from regroup.assignors.interface import AssignorError
from regroup.coordinator import responses
from regroup.coordinator.classic.join import join_group, refuse_request
from regroup.coordinator.classic.protocol_vote import CONSUMER_PROTOCOL_TYPE
from regroup.coordinator.classic.rebalance import rebalance
from regroup.coordinator.commands import Heartbeat, JoinGroup, SyncGroup
from regroup.coordinator.consumer.checks import refuse_member, refuse_size
from regroup.coordinator.consumer.events import ConsumerGroupEnded, MemberSubscribed
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.heartbeat import (
    profile_of,
    reconcile,
    replace_static_member,
    subscribe,
)
from regroup.coordinator.consumer.migration.downgrade import downgrade, may_downgrade
from regroup.coordinator.consumer.migration.embedded_protocol import encoded_assignment, partitions_by_id
from regroup.coordinator.consumer.migration.events import ClassicMemberJoined, ClassicMemberSynced, RejoinRequested
from regroup.coordinator.consumer.targets import update_target
from regroup.coordinator.consumer_group import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    ConsumerProfile,
    PartitionEpochs,
    ReconciliationState,
)
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.group import MemberProfile
from regroup.coordinator.offsets.log_batch_size import MAX_BATCH_BYTES, size_of_text
from regroup.coordinator.settings import CoordinatorSettings, MigrationPolicy
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, Subscription, decode_subscription
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import JoinGroupResponse, SyncGroupResponse

E = ErrorCode


def join_consumer_group(decision: DecisionBuilder, command: JoinGroup) -> Decision:
    """Handle a JoinGroup to a group of the consumer protocol. The response has no assignment: the coordinator computes
    it, and the member gets it with SyncGroup.

    If the group has no members, a JoinGroup without a member id makes it a classic group.
    """
    consumer = consumer_of(decision.group)
    if refused := refuse_request(decision.settings, decision.group, command):
        return decision.build(responses.join_error(refused, command.member_id))
    if not consumer.members and command.member_id:
        return decision.build(responses.join_error(E.UNKNOWN_MEMBER_ID, command.member_id))
    if not consumer.members:
        decision.apply(ConsumerGroupEnded, reason="JoinGroup of the classic protocol")
        return join_group(decision, command)
    member_id = command.member_id or command.new_short_member_id or command.new_member_id
    if refused := refuse_join(decision.settings, consumer, command, member_id):
        named = member_id if refused is E.MEMBER_ID_REQUIRED else ""
        return Decision(decision.group, response=responses.join_error(refused, named))
    try:
        subscription = decode_subscription(command.profile.supported_protocols[0].metadata)
    except MalformedConsumerProtocol:
        return Decision(decision.group, response=responses.join_error(E.INCONSISTENT_GROUP_PROTOCOL, ""))
    before = decision.group
    try:
        member = accept_join(decision, command, member_id, subscription)
    except AssignorError:
        return Decision(before, response=responses.join_error(E.UNKNOWN_SERVER_ERROR, ""))
    return decision.build_after_pending_appends(joined_response(member))


def refuse_join(
    settings: CoordinatorSettings, consumer: ConsumerGroup, command: JoinGroup, member_id: str
) -> ErrorCode | None:
    """The error of a JoinGroup to a group of the consumer protocol, by the checks of Kafka's
    `classicGroupJoinToConsumerGroup` in their order; None if it is accepted.

    The member id that MEMBER_ID_REQUIRED returns is not stored. A member whose description is larger than a batch of
    the log is refused, since Kafka could not write it.
    """
    instance_id = command.profile.instance_id
    if settings.group_consumer_migration_policy is MigrationPolicy.DISABLED:
        return E.INCONSISTENT_GROUP_PROTOCOL
    if refuse_size(settings, consumer, member_id, instance_id):
        return E.GROUP_MAX_SIZE_REACHED
    if not is_protocol_supported(consumer, command):
        return E.INCONSISTENT_GROUP_PROTOCOL
    if instance_id is None and not command.member_id and command.supports_member_id_required:
        return E.MEMBER_ID_REQUIRED
    if instance_id is not None and command.member_id and (refused := refuse_member(consumer, member_id, instance_id)):
        return refused.code
    return E.UNKNOWN_SERVER_ERROR if size_of(command.profile) > MAX_BATCH_BYTES else None


def size_of(profile: MemberProfile) -> int:
    return sum(size_of_text(each.name) + len(each.metadata) for each in profile.supported_protocols)


def is_protocol_supported(consumer: ConsumerGroup, command: JoinGroup) -> bool:
    """Whether the request is of protocol type `consumer` and names an assignor that every member of the classic
    protocol supports, the sender's old entry included."""
    if command.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    wanted = names_of(command.profile.supported_protocols)
    common = listed_once(wanted)
    for member in consumer.members.values():
        offered = names_of(member.profile.classic.supported_protocols) if member.profile.classic else wanted
        if offered != wanted:  # most members offer the same
            common &= listed_once(offered)
    return bool(common)


def names_of(protocols: Sequence[SupportedProtocol]) -> list[str]:
    return [each.name for each in protocols]


def listed_once(names: Iterable[str]) -> set[str]:
    """The names that occur exactly once: as in a classic group, an assignor that a member lists twice does not
    count."""
    return {name for name, count in Counter(names).items() if count == 1}


def accept_join(
    decision: DecisionBuilder, command: JoinGroup, member_id: str, subscription: Subscription
) -> ConsumerMember:
    """Apply everything that follows from an accepted JoinGroup to the group, and return the member that its response
    describes.

    If the member replaces the group's only member of the consumer protocol, the group becomes a classic one. Raises
    AssignorError.
    """
    before, instance_id = consumer_of(decision.group), command.profile.instance_id
    replaced_id = None if instance_id is None else before.static_members.get(instance_id)
    if not command.member_id:
        replace_static_member(decision, instance_id, member_id)
    profile = joined_profile(profile_of(decision.group, member_id), command.profile, subscription)
    follows = subscribe(decision, member_id, profile, command.topics)
    consumer = consumer_of(decision.group)
    owned = partitions_by_id(subscription.owned_partitions, command.topics)
    becomes_classic = (
        replaced_id is not None
        and not before.members[replaced_id].is_classic
        and may_downgrade(decision.settings, consumer.members.values())
    )
    is_stale = consumer.assignment_epoch < consumer.group_epoch
    if not becomes_classic:
        update_target(decision, command.topics, follows.assignor, homogeneous=follows.homogeneous)
    if not (becomes_classic and is_stale):
        reconcile(decision, member_id, command.topics, owned, subscription_changed=follows.has_changed)
    member = consumer_of(decision.group).members[member_id]
    if becomes_classic:
        downgrade(decision, command.topics, before.group_epoch)
        if is_stale:
            rebalance(decision, "the target was out of date when the group became classic")
    else:
        sync_deadline_ms = decision.at_ms + command.profile.rebalance_timeout_ms
        decision.apply(ClassicMemberJoined, member_id=member_id, sync_deadline_ms=sync_deadline_ms)
        decision.touch_session(member_id)
    return member


def joined_profile(old: ConsumerProfile, joined: MemberProfile, subscription: Subscription) -> ConsumerProfile:
    """The member's description after a JoinGroup with the profile `joined` and the decoded `subscription`. A pattern
    that it had is removed; its vote for an assignor is kept."""
    timeout_ms = joined.rebalance_timeout_ms
    return replace(
        old,
        instance_id=old.instance_id if joined.instance_id is None else joined.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        client_id=joined.client_id,
        client_host=joined.client_host,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        session_timeout_ms=joined.session_timeout_ms,
        subscribed_topics=tuple(sorted(set(subscription.topics))),
        subscribed_regex="",
        classic=ClassicMetadata(
            session_timeout_ms=joined.session_timeout_ms, supported_protocols=joined.supported_protocols
        ),
    )


def joined_response(member: ConsumerMember) -> JoinGroupResponse:
    """The response to an accepted JoinGroup: the generation is the member's epoch, the assignor is the first that the
    member named, and no member is the leader."""
    return JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=classic_of(member).supported_protocols[0].name,
        leader="",
        member_id=member.member_id,
    )


def classic_of(member: ConsumerMember) -> ClassicMetadata:
    assert member.profile.classic is not None, "a member of the consumer protocol is refused before"
    return member.profile.classic


def sync_with_consumer_group(decision: DecisionBuilder, command: SyncGroup) -> Decision:
    """Handle a SyncGroup of a member of the classic protocol: answer it with what the coordinator has assigned to the
    member. Assignments in the request are ignored."""
    if refused := refuse_classic_request(decision, command):
        return decision.build(responses.sync_error(refused))
    consumer = consumer_of(decision.group)
    member = consumer.members[command.member_id]
    first = classic_of(member).supported_protocols[0]
    if differ(command.protocol_type, CONSUMER_PROTOCOL_TYPE) or differ(command.protocol_name, first.name):
        return decision.build(responses.sync_error(E.INCONSISTENT_GROUP_PROTOCOL))
    revokes = member.state is ReconciliationState.UNREVOKED_PARTITIONS
    if consumer.assignment_epoch > member.epoch and not revokes:
        request_rejoin(decision, member)
        return decision.build(responses.sync_error(E.REBALANCE_IN_PROGRESS))
    if member.sync_deadline_ms is not None:
        decision.apply(ClassicMemberSynced, member_id=member.member_id)
    restart_session(decision, member)
    return decision.build_after_pending_appends(
        SyncGroupResponse(
            protocol_type=command.protocol_type,
            protocol_name=command.protocol_name,
            assignment=encoded_assignment(in_order_of_target(consumer, member), command.topics, first.metadata),
        )
    )


def in_order_of_target(consumer: ConsumerGroup, member: ConsumerMember) -> PartitionEpochs:
    """What the member is assigned, with its topics in the order of its target, from which Kafka fills the hash map of
    an assignment."""
    target = consumer.targets.get(member.member_id, {})
    return {
        topic_id: member.assigned[topic_id] for topic_id in (*target, *member.assigned) if topic_id in member.assigned
    }


def differ(requested: str | None, present: str) -> bool:
    return requested is not None and requested != present


def heartbeat_to_consumer_group(decision: DecisionBuilder, command: Heartbeat) -> Decision:
    """Handle a Heartbeat of a member of the classic protocol. It is answered with REBALANCE_IN_PROGRESS if there is a
    newer target, or if the member has to give up partitions or may get others."""
    if refused := refuse_classic_request(decision, command):
        return decision.build(responses.heartbeat_response(refused))
    consumer = consumer_of(decision.group)
    member = consumer.members[command.member_id]
    restart_session(decision, member)
    code = E.NONE
    if must_rejoin(consumer, member):
        request_rejoin(decision, member)
        code = E.REBALANCE_IN_PROGRESS
    return decision.build_after_pending_appends(responses.heartbeat_response(code))


def must_rejoin(consumer: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < consumer.assignment_epoch or member.state is ReconciliationState.UNREVOKED_PARTITIONS:
        return True
    return member.state is ReconciliationState.UNRELEASED_PARTITIONS and not waits_for_others(consumer, member)


def waits_for_others(consumer: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a partition of the member's target, not yet assigned to it, is still held by a member."""
    return any(
        index not in member.assigned.get(topic_id, {}) and index in consumer.holders.get(topic_id, {})
        for topic_id, indexes in consumer.targets.get(member.member_id, {}).items()
        for index in indexes
    )


def refuse_classic_request(decision: DecisionBuilder, command: SyncGroup | Heartbeat) -> ErrorCode | None:
    """The error of a SyncGroup or Heartbeat to a group of the consumer protocol; None if it is accepted. Checked in
    order: the group id, the member, that it is one of the classic protocol, and its generation."""
    if not command.group_id:
        return E.INVALID_GROUP_ID
    consumer = consumer_of(decision.group)
    if refused := refuse_member(consumer, command.member_id, command.group_instance_id):
        return refused.code
    member = consumer.members[command.member_id]
    if not member.is_classic:
        return E.UNKNOWN_MEMBER_ID
    return None if member.epoch == command.generation_id else E.ILLEGAL_GENERATION


def request_rejoin(decision: DecisionBuilder, member: ConsumerMember) -> None:
    """Give a member that is answered with REBALANCE_IN_PROGRESS its rebalance timeout to send JoinGroup. The deadline
    counts from the first such response; later ones do not extend it."""
    if member.join_deadline_ms is None:
        join_deadline_ms = decision.at_ms + member.profile.rebalance_timeout_ms
        decision.apply(RejoinRequested, member_id=member.member_id, join_deadline_ms=join_deadline_ms)


def restart_session(decision: DecisionBuilder, member: ConsumerMember) -> None:
    """Start the session timeout of a member of the classic protocol again, with the length that its JoinGroup named. A
    load replaces that length by the one for the consumer protocol; the first request afterwards restores it."""
    own_ms = classic_of(member).session_timeout_ms
    if member.profile.session_timeout_ms != own_ms:
        profile = replace(member.profile, session_timeout_ms=own_ms)
        reason = "its own session timeout counts again"
        decision.apply(MemberSubscribed, member_id=member.member_id, profile=profile, reason=reason)
    decision.touch_session(member.member_id)
