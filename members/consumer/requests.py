"""Builds the requests of a member from its settings and generation."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from regroup.assignors.interface import Assignor, LastAssignment
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import HIGHEST_VERSION, Subscription, TopicPartition, encode_subscription
from regroup.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

PROTOCOL_TYPE: Final = "consumer"
_JOIN_GROUP_TIMEOUT_LAPSE_MS: Final = 5_000
"""Milliseconds beyond the rebalance timeout, for which JoinGroup may be held, until its request expires."""
_MAX_REASON_LENGTH: Final = 255


def join_group_protocols(
    settings: ConsumerSettings,
    assignors: Iterable[Assignor],
    topics: Sequence[str],
    owned: tuple[TopicPartition, ...],
    generation: MemberGeneration,
    last: Mapping[str, LastAssignment],
) -> list[JoinGroupRequestProtocol]:
    """The protocols of a JoinGroup, in order of preference.

    Each is an assignor with the encoded subscription, which has the assignor's user data.
    """
    return [
        JoinGroupRequestProtocol(
            name=assignor.name,
            metadata=encode_subscription(
                Subscription(
                    HIGHEST_VERSION,
                    tuple(topics),
                    assignor.subscription_user_data(topics, last.get(assignor.name)),
                    owned,
                    generation.generation_id,
                    settings.client_rack,
                )
            ),
        )
        for assignor in assignors
    ]


def join_group(
    settings: ConsumerSettings, generation: MemberGeneration, protocols: list[JoinGroupRequestProtocol], reason: str
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
        reason=reason[:_MAX_REASON_LENGTH],
    )


def join_group_timeout_ms(settings: ConsumerSettings) -> int:
    """Milliseconds after which a JoinGroup without a response expires."""
    return max(settings.request_timeout_ms, settings.rebalance_timeout_ms + _JOIN_GROUP_TIMEOUT_LAPSE_MS)


def sync_group(
    settings: ConsumerSettings, generation: MemberGeneration, assignments: list[SyncGroupRequestAssignment]
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=generation.protocol_name,
        assignments=assignments,
    )


def heartbeat(settings: ConsumerSettings, generation: MemberGeneration) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
    )


def leave_group(settings: ConsumerSettings, generation: MemberGeneration, reason: str) -> LeaveGroupRequest:
    identity = MemberIdentity(
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
        reason=reason[:_MAX_REASON_LENGTH],
    )
    return LeaveGroupRequest(group_id=settings.group_id, member_id=generation.member_id, members=[identity])


def offset_commit(
    settings: ConsumerSettings, generation: MemberGeneration, offsets: Mapping[TopicPartition, int]
) -> OffsetCommitRequest:
    """A commit in this generation. A consumer that has no subscription commits without a member id, and then without
    its instance id, too."""
    return OffsetCommitRequest(
        group_id=settings.group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id if generation.member_id else None,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offsets[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


def offset_fetch(settings: ConsumerSettings, partitions: Iterable[TopicPartition]) -> OffsetFetchRequest:
    """An OffsetFetch in both its forms: for one group, as up to version 7, and for several groups.

    It waits for open transactions, as that of Kafka's consumer does, where its version can say so (KIP-447).
    """
    numbers_of = by_topic(partitions)
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=each) for topic, each in numbers_of.items()]
    return OffsetFetchRequest(
        group_id=settings.group_id,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=each) for topic, each in numbers_of.items()],
        groups=[OffsetFetchRequestGroup(group_id=settings.group_id, topics=topics)],
        require_stable=True,
    )


def metadata(settings: ConsumerSettings, topics: Iterable[str] | None) -> MetadataRequest:
    """A Metadata request for these topics; None stands for all topics."""
    return MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=settings.allow_auto_create_topics,
    )
