"""ConsumerGroupHeartbeat: a member joins, reports that it is alive, and reconciles (`consumerGroupHeartbeat`).

A request is answered at once. Its steps: the member's description; the group epoch, if subscriptions or topics have
changed; the target, if it is out of date; the member's own step towards the target.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from regroup.assignors.interface import AssignorError
from regroup.coordinator.consumer.checks import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    HeartbeatRefusal,
    refuse_description,
    refuse_epoch,
    refuse_instance_in_use,
    refuse_member,
    refuse_regex,
    refuse_request,
    refuse_size,
)
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.events import (
    ConsumerGroupCreated,
    GroupEpochBumped,
    MemberReconciled,
    MemberSubscribed,
    StaticConsumerReplaced,
)
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.leaving import leave_with_heartbeat
from regroup.coordinator.consumer.reconciliation import FencedMember, Reconciliation
from regroup.coordinator.consumer.responses import heartbeat_error, heartbeat_response
from regroup.coordinator.consumer.targets import elected_assignor, is_homogeneous, update_target
from regroup.coordinator.consumer_group import (
    AWAY_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerProfile,
    ReconciliationState,
    TopicId,
)
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import AppendCommitted
from regroup.coordinator.group import Group, GroupState, LogRecordKind
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.errors import ErrorCode

NO_PROFILE = ConsumerProfile()


def consumer_group_heartbeat(decision: DecisionBuilder, command: ConsumerGroupHeartbeat) -> Decision:
    """Handle a ConsumerGroupHeartbeat to a group of the consumer protocol, or to one that becomes such a group.

    The response carries the member's assignment if the member has just joined, if its request contained all fields, or
    if the assignment has changed.
    """
    before = decision.group
    if refused := refuse_request(command):
        return refuse(before, refused)
    if command.member_epoch in (LEAVE_EPOCH, AWAY_EPOCH):
        return leave_with_heartbeat(decision, command)
    if not is_or_becomes_consumer_group(before, command):
        return refuse(before, HeartbeatRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found."))
    present = before.consumer or ConsumerGroup()
    if refused := refuse_in_group(decision, present, command):
        return refuse(before, refused)
    try:
        member = accept(decision, command)
    except FencedMember:
        text = "The state of the member is unknown to this coordinator: it must join again."
        return refuse(before, HeartbeatRefusal(ErrorCode.FENCED_MEMBER_EPOCH, text))
    except AssignorError as error:
        return refuse(before, HeartbeatRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"The assignor has failed: {error}"))
    decision.touch_session(member.member_id)
    known = present.members.get(member.member_id)
    with_assignment = is_full(command) or known is None or known.assigned != member.assigned
    interval_ms = decision.settings.group_consumer_heartbeat_interval_ms
    return decision.build_after_pending_appends(
        heartbeat_response(member, interval_ms, with_assignment=with_assignment)
    )


def refuse(group: Group, refused: HeartbeatRefusal) -> Decision:
    """The decision that leaves the group unchanged and answers a heartbeat with the error code and message of
    `refused`."""
    return Decision(group, response=heartbeat_error(refused.code, refused.text))


def is_or_becomes_consumer_group(group: Group, command: ConsumerGroupHeartbeat) -> bool:
    """Whether the group is of the consumer protocol, or becomes such a group because a member joins it while it does
    not exist or is an Empty classic group."""
    if group.consumer is not None:
        return True
    return command.member_epoch == JOIN_EPOCH and (not group.exists or group.state is GroupState.EMPTY)


def refuse_in_group(
    decision: DecisionBuilder, consumer: ConsumerGroup, command: ConsumerGroupHeartbeat
) -> HeartbeatRefusal | None:
    """The error of a heartbeat by the state of its group; None if it is accepted. Checked in order: the group's size,
    the member, its epoch, its pattern, and the size of its description."""
    if refused := refuse_size(decision.settings, consumer, command.member_id, command.instance_id):
        return refused
    if command.member_epoch == JOIN_EPOCH:
        refused = refuse_instance_in_use(consumer, command.instance_id) if command.instance_id is not None else None
    else:
        refused = refuse_member(consumer, command.member_id, command.instance_id) or refuse_epoch(
            consumer.members[command.member_id], command
        )
    return refused or refuse_regex(consumer, command) or refuse_description(command)


def is_full(command: ConsumerGroupHeartbeat) -> bool:
    """Whether the request contains the rebalance timeout, the subscription and the owned partitions, as a member's
    first request does, and its first one after an error."""
    if command.member_epoch == JOIN_EPOCH:
        return True
    has_subscription = command.subscribed_topics is not None or command.subscribed_regex is not None
    return command.rebalance_timeout_ms != -1 and has_subscription and command.owned is not None


def accept(decision: DecisionBuilder, command: ConsumerGroupHeartbeat) -> ConsumerMember:
    """Apply everything that follows from an accepted heartbeat to the group, and return the member as it is then.

    Raises FencedMember, AssignorError.
    """
    if decision.group.consumer is None:
        commit_records_of_classic_group(decision)
        decision.apply(ConsumerGroupCreated, reason="first ConsumerGroupHeartbeat")
    member_id = command.member_id or command.new_member_id
    if command.member_epoch == JOIN_EPOCH:
        replace_static_member(decision, command.instance_id, member_id)
    old = profile_of(decision.group, member_id)
    profile = updated_profile(old, command, decision.settings.group_consumer_session_timeout_ms)
    subscription = subscribe(decision, member_id, profile, command.topics)
    update_target(decision, command.topics, subscription.assignor, homogeneous=subscription.homogeneous)
    reconcile(decision, member_id, command.topics, command.owned, subscription_changed=subscription.has_changed)
    return consumer_of(decision.group).members[member_id]


def commit_records_of_classic_group(decision: DecisionBuilder) -> None:
    """Commit the group's records that the emulated Kafka log has not committed, except offsets, before an Empty classic
    group becomes one of the consumer protocol. The log commits in order; if it lost the creation of the old group
    later, the new group would be lost too."""
    for append_number, append in decision.group.pending_appends.items():
        if append.kind is not LogRecordKind.OFFSETS:
            decision.apply(AppendCommitted, append_number=append_number)
            decision.complete_append(append_number)


class SubscriptionEffect(NamedTuple):
    """The results of `subscribe` that the computation of the target needs: whether the member's subscription has
    changed, the elected assignor, and whether all members count as equal subscribers."""

    has_changed: bool
    assignor: str
    homogeneous: bool


def subscribe(
    decision: DecisionBuilder, member_id: str, profile: ConsumerProfile, topics: TopicsImage
) -> SubscriptionEffect:
    """Write the member's description, and increase the group epoch if the target is out of date.

    As in Kafka, a newly elected assignor makes the target out of date only in requests of members of the consumer
    protocol, and the first target after a load of the group is computed for the subscriptions as they are after this
    request.
    """
    consumer, old = consumer_of(decision.group), profile_of(decision.group, member_id)
    if member_id not in consumer.members or profile != old:
        decision.apply(MemberSubscribed, member_id=member_id, profile=profile)
    assignor = elected_assignor(consumer_of(decision.group), sole_vote(consumer, old, profile))
    reasons = bump_reasons(consumer_of(decision.group), old, profile)
    if profile.classic is None and assignor != elected_assignor(consumer):
        reasons.append(f"the members have elected {assignor}")
    is_first_since_load = consumer.assigned_at_ms < decision.group.loaded_at_ms
    looks_at_subscriptions = bump_group_epoch(decision, consumer, topics, reasons) or is_first_since_load
    homogeneous = is_homogeneous(consumer_of(decision.group) if looks_at_subscriptions else consumer)
    return SubscriptionEffect(subscription_of(old) != subscription_of(profile), assignor, homogeneous)


def profile_of(group: Group, member_id: str) -> ConsumerProfile:
    """The present description of the member with this id; an empty description if the group has no such member."""
    member = consumer_of(group).members.get(member_id)
    return member.profile if member else NO_PROFILE


def replace_static_member(decision: DecisionBuilder, instance_id: str | None, member_id: str) -> None:
    """Replace the static member that has this instance id, if there is one, by the joining member `member_id`."""
    static_members = consumer_of(decision.group).static_members
    if instance_id is not None and instance_id in static_members:
        decision.apply(
            StaticConsumerReplaced,
            instance_id=instance_id,
            member_id=member_id,
            replaced_member_id=static_members[instance_id],
        )


def updated_profile(old: ConsumerProfile, command: ConsumerGroupHeartbeat, session_timeout_ms: int) -> ConsumerProfile:
    """The member's description after a heartbeat: fields that the request leaves out keep their values in `old`. The
    session timeout is that of the coordinator's settings."""
    topics, regex = command.subscribed_topics, command.subscribed_regex
    return replace(
        old,
        instance_id=old.instance_id if command.instance_id is None else command.instance_id,
        rack_id=old.rack_id if command.rack_id is None else command.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        rebalance_timeout_ms=(
            old.rebalance_timeout_ms if command.rebalance_timeout_ms == -1 else command.rebalance_timeout_ms
        ),
        session_timeout_ms=session_timeout_ms,
        subscribed_topics=old.subscribed_topics if topics is None else tuple(sorted(set(topics))),
        subscribed_regex=old.subscribed_regex if regex is None else regex,
        server_assignor=old.server_assignor if command.server_assignor is None else command.server_assignor,
        classic=None,
    )


def subscription_of(profile: ConsumerProfile) -> tuple[tuple[str, ...], str]:
    return profile.subscribed_topics, profile.subscribed_regex


def sole_vote(before: ConsumerGroup, old: ConsumerProfile, new: ConsumerProfile) -> str | None:
    """The assignor that the member names in `new`, if no other member names it; otherwise None."""
    name = new.server_assignor
    if name is None or before.assignor_votes.get(name, 0) > (old.server_assignor == name):
        return None
    return name


def bump_reasons(after: ConsumerGroup, old: ConsumerProfile, new: ConsumerProfile) -> list[str]:
    """Why the member's new subscription makes the target out of date, as texts; empty if it does not. A new pattern
    does so only once the topics that match it are known."""
    reasons = []
    if new.subscribed_topics != old.subscribed_topics:
        reasons.append("a member subscribes to other topics")
    if new.subscribed_regex != old.subscribed_regex and (
        not new.subscribed_regex or new.subscribed_regex in after.resolved_regexes
    ):
        reasons.append("a member subscribes by another pattern")
    return ["a member subscribes for the first time"] if reasons and old is NO_PROFILE else reasons


def bump_group_epoch(decision: DecisionBuilder, before: ConsumerGroup, topics: TopicsImage, reasons: list[str]) -> bool:
    """Increase the group epoch by one if there are reasons, which the event names all together. Changes of the
    subscribed topics are looked for if there is another reason, or if a topic has changed that was compared last time.

    Returns whether they were looked for: only then does Kafka use the subscriptions as they are after this request.
    """
    consumer = consumer_of(decision.group)
    are_outdated = topics.metadata_hash(before.hashed_topics) != before.metadata_hash
    if not reasons and not are_outdated:
        return False
    metadata_hash = topics.metadata_hash(consumer.subscribed_topics)
    if metadata_hash != consumer.metadata_hash and are_outdated:
        reasons.append("subscribed topics have changed")
    if reasons:
        decision.apply(
            GroupEpochBumped,
            group_epoch=consumer.group_epoch + 1,
            metadata_hash=metadata_hash,
            hashed_topics=consumer.subscribed_topics,
            reason="; ".join(reasons),
        )
    return True


def reconcile(
    decision: DecisionBuilder,
    member_id: str,
    topics: TopicsImage,
    owned: Mapping[TopicId, tuple[int, ...]] | None,
    *,
    subscription_changed: bool,
) -> None:
    """Make one step of the member towards its target, if it has not reached the target or its subscription has changed.
    The member reports `owned` partitions, None if it reports none. Other members make their steps with their own
    requests.

    A member of the classic protocol gets no revocation deadline; its deadlines are those of JoinGroup and SyncGroup.
    Raises FencedMember.
    """
    consumer = consumer_of(decision.group)
    member = consumer.members[member_id]
    if member.has_reached(consumer.assignment_epoch) and not subscription_changed:
        return
    after = Reconciliation(
        member,
        target_epoch=consumer.assignment_epoch,
        target=consumer.targets.get(member_id, {}),
        subscribed=topics.ids_of(consumer.topics_of(member.profile)),
        has_subscription_changed=subscription_changed,
        is_held_by_another=lambda topic_id, index: consumer.is_held_by_another(topic_id, index, member_id),
        owned=owned,
    ).step()
    if after == member:
        return
    has_deadline = after.state is ReconciliationState.UNREVOKED_PARTITIONS and not member.is_classic
    decision.apply(
        MemberReconciled,
        member_id=member_id,
        state=after.state,
        epoch=after.epoch,
        previous_epoch=after.previous_epoch,
        assigned=after.assigned,
        pending_revocation=after.pending_revocation,
        revocation_deadline_ms=decision.at_ms + member.profile.rebalance_timeout_ms if has_deadline else None,
    )
