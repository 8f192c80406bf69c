"""Responses about groups of the consumer protocol."""

from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.targets import elected_assignor
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, PartitionEpochs, Partitions, TopicId
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)
from regroup.protocol.messages.describe import (
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
)
from regroup.protocol.topic_ids import topic_id_bytes

CLASSIC_MEMBER_TYPE, CONSUMER_MEMBER_TYPE = 0, 1
"""Kafka's numbers of a member of the classic protocol and one of the consumer protocol (KIP-1099)."""


def heartbeat_error(code: ErrorCode, text: str) -> ConsumerGroupHeartbeatResponse:
    """The response to a refused ConsumerGroupHeartbeat: error code and message; all other fields have their
    defaults."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=text)


def left_response(command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_id=command.member_id, member_epoch=command.member_epoch)


def heartbeat_response(
    member: ConsumerMember, heartbeat_interval_ms: int, *, with_assignment: bool
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        assignment=assignment_of(member) if with_assignment else None,
    )


def assignment_of(member: ConsumerMember) -> ConsumerGroupAssignment:
    """The partitions assigned to the member, as its heartbeat response carries them; without those pending
    revocation."""
    return ConsumerGroupAssignment(
        topic_partitions=[
            ConsumerGroupTopicPartitions(topic_id=topic_id_bytes(topic_id), partitions=list(epochs))
            for topic_id, epochs in member.assigned.items()
        ]
    )


def described_group(group_id: str, consumer: ConsumerGroup, topics: TopicsImage) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        group_id=group_id,
        group_state=consumer.state.value,
        group_epoch=consumer.group_epoch,
        assignment_epoch=consumer.assignment_epoch,
        assignor_name=elected_assignor(consumer),
        members=[
            described_member(member, consumer.targets.get(member.member_id, {}), topics)
            for member in consumer.members.values()
        ],
    )


def described_member(member: ConsumerMember, target: Partitions, topics: TopicsImage) -> DescribedConsumer:
    """The entry of one member in a ConsumerGroupDescribe response. Its assignment contains all partitions that it may
    own, also those pending revocation (since Kafka 4.3)."""
    owned: dict[TopicId, list[int]] = {}
    for topic_id, index in sorted(member.held()):
        owned.setdefault(topic_id, []).append(index)
    profile = member.profile
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        member_epoch=member.epoch,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=list(profile.subscribed_topics),
        subscribed_topic_regex=profile.subscribed_regex,
        assignment=described_assignment(owned, topics),
        target_assignment=described_assignment(target, topics),
        member_type=CLASSIC_MEMBER_TYPE if member.is_classic else CONSUMER_MEMBER_TYPE,
    )


def described_assignment(
    partitions: dict[TopicId, list[int]] | Partitions | PartitionEpochs, topics: TopicsImage
) -> DescribedAssignment:
    """Partitions by topic id in the form of a ConsumerGroupDescribe response. Topics that no longer exist are left
    out."""
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(
                topic_id=topic_id_bytes(topic_id), topic_name=topics.by_id[topic_id].name, partitions=list(indexes)
            )
            for topic_id, indexes in partitions.items()
            if topic_id in topics.by_id
        ]
    )
