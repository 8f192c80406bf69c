"""The requests of a member, filled in."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from regroup.assignors.interface import Assignor, LastAssignment
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Generation
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
JOIN_LAPSE_MS: Final = 5_000
"""JoinGroup may be parked for the whole rebalance timeout; its answer may take this much longer."""
_REASON_CHARACTERS: Final = 255


def protocols(
    settings: ConsumerSettings,
    assignors: Iterable[Assignor],
    topics: Sequence[str],
    owned: tuple[TopicPartition, ...],
    generation: Generation,
    last: Mapping[str, LastAssignment],
) -> list[JoinGroupRequestProtocol]:
    """One subscription for each assignor, in the order of preference."""
    return [
        JoinGroupRequestProtocol(
            name=assignor.name,
            metadata=encode_subscription(
                Subscription(
                    HIGHEST_VERSION,
                    tuple(topics),
                    assignor.subscription_user_data(topics, last.get(assignor.name)),
                    owned,
                    generation.number,
                    settings.client_rack,
                )
            ),
        )
        for assignor in assignors
    ]


def join_group(
    settings: ConsumerSettings, generation: Generation, offered: list[JoinGroupRequestProtocol], reason: str
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=offered,
        reason=reason[:_REASON_CHARACTERS],
    )


def join_timeout_ms(settings: ConsumerSettings) -> int:
    return max(settings.request_timeout_ms, settings.rebalance_timeout_ms + JOIN_LAPSE_MS)


def sync_group(
    settings: ConsumerSettings, generation: Generation, assignments: list[SyncGroupRequestAssignment]
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=generation.number,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=generation.protocol_name,
        assignments=assignments,
    )


def heartbeat(settings: ConsumerSettings, generation: Generation) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=generation.number,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
    )


def leave_group(settings: ConsumerSettings, generation: Generation, reason: str) -> LeaveGroupRequest:
    identity = MemberIdentity(
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
        reason=reason[:_REASON_CHARACTERS],
    )
    return LeaveGroupRequest(group_id=settings.group_id, member_id=generation.member_id, members=[identity])


def offset_commit(
    settings: ConsumerSettings, generation: Generation, offsets: Mapping[TopicPartition, int]
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=settings.group_id,
        generation_id_or_member_epoch=generation.number,
        member_id=generation.member_id,
        group_instance_id=settings.group_instance_id,
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
    wanted = by_topic(partitions)
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=numbers) for topic, numbers in wanted.items()]
    return OffsetFetchRequest(
        group_id=settings.group_id,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=numbers) for topic, numbers in wanted.items()],
        groups=[OffsetFetchRequestGroup(group_id=settings.group_id, topics=topics)],
    )


def metadata(settings: ConsumerSettings, topics: Iterable[str] | None) -> MetadataRequest:
    """None asks for all topics."""
    return MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=settings.allow_auto_create_topics,
    )
