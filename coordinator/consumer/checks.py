"""The checks of ConsumerGroupHeartbeat, in Kafka's order (`GroupCoordinatorService`, `GroupMetadataManager`)."""

from typing import NamedTuple

from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.targets import ASSIGNORS
from regroup.coordinator.consumer_group import AWAY_EPOCH, ConsumerGroup, ConsumerMember, every_partition
from regroup.coordinator.offsets.log_batch_size import MAX_BATCH_BYTES, size_of_text
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode

JOIN_EPOCH, LEAVE_EPOCH = 0, -1
"""Member epochs of a request that joins or leaves; a static member that will return leaves with AWAY_EPOCH."""


TEXT_BYTES = 2
"""The bytes that a text takes in a record beside those of its characters."""


class HeartbeatRefusal(NamedTuple):
    """Why a ConsumerGroupHeartbeat is refused: the error code and the message of its response."""

    code: ErrorCode
    text: str


def refuse_request(command: ConsumerGroupHeartbeat) -> HeartbeatRefusal | None:
    """The error of a heartbeat whose own fields are not valid, whatever the state of the group; None if they are."""
    epoch = command.member_epoch
    needs_member_id = command.requires_member_id or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    if needs_member_id and not command.member_id.strip():
        return invalid("MemberId can't be empty.")
    for name, text in (("GroupId", command.group_id), ("InstanceId", command.instance_id), ("RackId", command.rack_id)):
        if text is not None and not text.strip():
            return invalid(f"{name} can't be empty.")
    if epoch == JOIN_EPOCH and (refused := refuse_join(command)):
        return refused
    if epoch == AWAY_EPOCH and command.instance_id is None:
        return invalid("InstanceId can't be null.")
    if epoch < AWAY_EPOCH:
        return invalid(f"MemberEpoch is invalid: {epoch}.")
    if command.server_assignor is not None and command.server_assignor not in ASSIGNORS:
        supported = ", ".join(ASSIGNORS)
        return HeartbeatRefusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {command.server_assignor} is not supported. Supported assignors: {supported}.",
        )
    return None


def refuse_join(command: ConsumerGroupHeartbeat) -> HeartbeatRefusal | None:
    """The error of a heartbeat with epoch 0 that lacks a rebalance timeout or a subscription, or that does not report
    an empty list of owned partitions; None if it has all three."""
    if command.rebalance_timeout_ms == -1:
        return invalid("RebalanceTimeoutMs must be provided in first request.")
    if command.owned is None or command.owned:
        return invalid("TopicPartitions must be empty when (re-)joining.")
    if command.subscribed_topics is None and command.subscribed_regex is None:
        return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be set in first request.")
    return None


def refuse_size(
    settings: CoordinatorSettings, consumer: ConsumerGroup, member_id: str, instance_id: str | None
) -> HeartbeatRefusal | None:
    """The error if `group.consumer.max.size` is reached and the sender is not a member yet; None if it is accepted. A
    process that has the instance id of a present static member is accepted, since it replaces that member."""
    if len(consumer.members) < settings.group_consumer_max_size or member_id in consumer.members:
        return None
    if instance_id is not None and instance_id in consumer.static_members:
        return None
    return HeartbeatRefusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The group has reached group.consumer.max.size ({settings.group_consumer_max_size}).",
    )


def refuse_member(consumer: ConsumerGroup, member_id: str, instance_id: str | None) -> HeartbeatRefusal | None:
    """The error of a request whose sender is not a member; None if it is one. A sender with an instance id must be the
    member that has this instance id at present."""
    if instance_id is not None:
        owner = consumer.static_members.get(instance_id)
        if owner is None:
            return HeartbeatRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if owner != member_id:
            return HeartbeatRefusal(ErrorCode.FENCED_INSTANCE_ID, f"Instance id {instance_id} is owned by {owner}.")
    elif member_id not in consumer.members:
        return HeartbeatRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of the group.")
    return None


def refuse_instance_in_use(consumer: ConsumerGroup, instance_id: str) -> HeartbeatRefusal | None:
    """The error of a process that joins with the instance id of a static member which has not left; None if the id is
    free.

    It is free once the member has left temporarily (epoch -2). A static member of the classic protocol has no such
    epoch, so a new process may replace it at any time.
    """
    owner = consumer.static_members.get(instance_id)
    if owner is None or consumer.members[owner].is_away or consumer.members[owner].is_classic:
        return None
    return HeartbeatRefusal(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {owner} with instance id {instance_id} is still in the group: it must leave first.",
    )


def refuse_epoch(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> HeartbeatRefusal | None:
    """The error of a heartbeat with another epoch than the member's; None if it is accepted. The previous epoch is
    accepted too, from a member that owns nothing but what it is assigned: it did not get the response with the present
    epoch."""
    epoch = command.member_epoch
    if epoch > member.epoch:
        text = f"The member's epoch {epoch} is greater than the one of the group coordinator ({member.epoch})."
        return HeartbeatRefusal(ErrorCode.FENCED_MEMBER_EPOCH, text)
    if epoch == member.epoch:
        return None
    if epoch == member.previous_epoch and owns_only_assigned(member, command):
        return None
    text = f"The member's epoch {epoch} is smaller than the one of the group coordinator ({member.epoch})."
    return HeartbeatRefusal(ErrorCode.FENCED_MEMBER_EPOCH, text)


def owns_only_assigned(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> bool:
    """Whether the request reports owned partitions, and all of them are assigned to the member at present."""
    if command.owned is None:
        return False
    return all(index in member.assigned.get(topic_id, {}) for topic_id, index in every_partition(command.owned))


def refuse_description(command: ConsumerGroupHeartbeat) -> HeartbeatRefusal | None:
    """The error of a heartbeat whose texts (ids, rack, topics, pattern) exceed the size of a batch of Kafka's log, to
    which Kafka could not write them; None if they fit."""
    names = command.subscribed_topics or ()
    texts = (command.group_id, command.member_id, command.instance_id or "", command.rack_id or "", command.client_id)
    size = sum(size_of_text(each) + TEXT_BYTES for each in (*names, *texts, command.subscribed_regex or ""))
    if size <= MAX_BATCH_BYTES:
        return None
    return HeartbeatRefusal(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"The member's description has more than {MAX_BATCH_BYTES} bytes, the limit of a batch of the log.",
    )


def refuse_regex(consumer: ConsumerGroup, command: ConsumerGroupHeartbeat) -> HeartbeatRefusal | None:
    """The error of a heartbeat whose pattern is not a valid regular expression; None if it is valid. As in Kafka, a
    pattern that the group has already is accepted without a check."""
    if not command.subscribed_regex or command.subscribed_regex in consumer.regex_subscriptions:
        return None
    if command.regex_error is None:
        return None
    return HeartbeatRefusal(ErrorCode.INVALID_REGULAR_EXPRESSION, command.regex_error)


def invalid(text: str) -> HeartbeatRefusal:
    return HeartbeatRefusal(ErrorCode.INVALID_REQUEST, text)
