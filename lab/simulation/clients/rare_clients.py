"""What clients send in steps that hardly any scenario needs: members that come and go, and outdated requests.

A coordinator has to refuse the outdated ones, and other brokers what they are asked.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.validation import CONSUMER
from regroup.lab.simulation.clients.lab_client import LabClient
from regroup.lab.simulation.world import World
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupTopicPartitions
from regroup.protocol.messages.describe import DeleteGroupsRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from regroup.protocol.topic_ids import topic_id_bytes

COMMIT_PRECEDES_JOIN_S: Final = 0.3
OLD_EPOCH: Final = 1
LEAST_EPOCH: Final = 3
"""The least epoch of a member whose previous epoch is as a rule not the old one."""


async def come_and_go(client: LabClient, *joins: JoinGroupRequest) -> None:
    """Join with a new member id, once with each of these requests, ask for the assignment if the coordinator makes it,
    and leave."""
    join = joins[0]
    group = join.group_id
    first = await client.request(group, join)
    if first is None or first.error_code != ErrorCode.MEMBER_ID_REQUIRED:
        return
    joined = None
    for each in joins:
        joined = await client.send_once(group, replace(each, member_id=first.member_id))
        if joined is None or joined.error_code:
            break
    if joined is not None and not joined.error_code and not joined.leader:
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=first.member_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
        )
        await client.request(group, sync)
    await _leave(client, group, first.member_id)


async def commit_and_join(
    client: LabClient, other: LabClient, join: JoinGroupRequest, commit: OffsetCommitRequest
) -> None:
    """Join with a new member id, commit over one connection, join again over another one while the commit waits for
    Kafka's log, and leave. Nothing is committed in a group in which members assign."""
    group = join.group_id
    first = await client.request(group, join)
    if first is None or first.error_code != ErrorCode.MEMBER_ID_REQUIRED:
        return
    join = replace(join, member_id=first.member_id)
    joined = await client.send_once(group, join)
    if joined is not None and not joined.error_code and not joined.leader:
        named = replace(commit, member_id=first.member_id, generation_id_or_member_epoch=joined.generation_id)
        again = asyncio.get_running_loop().create_task(_join_soon(other, join))
        await client.send_once(group, named)
        await again
    await _leave(client, group, first.member_id)


async def _leave(client: LabClient, group: str, member_id: str) -> None:
    leaving = MemberIdentity(member_id=member_id)
    await client.request(group, LeaveGroupRequest(group_id=group, member_id=member_id, members=[leaving]))


async def _join_soon(client: LabClient, join: JoinGroupRequest) -> None:
    await asyncio.sleep(COMMIT_PRECEDES_JOIN_S)
    await client.send_once(join.group_id, join)


def heartbeat_with_old_epoch(member: str, world: World) -> ConsumerGroupHeartbeatRequest | None:
    """A heartbeat of a member of the consumer protocol that lists what it owns, with an epoch from long ago; None if
    its epoch is still low."""
    planned, running = world.plan.members[member], world.members.by_name.get(member)
    state = world.brokers.cluster_state
    if running is None or running.is_stopped or planned.protocol != CONSUMER or state is None:
        return None
    generation = running.consumer.generation
    if generation.generation_id < LEAST_EPOCH:
        return None
    owned = [
        ConsumerGroupTopicPartitions(topic_id=topic_id_bytes(state.topics[topic].topic_id), partitions=list(indexes))
        for topic, indexes in by_topic(running.consumer.assigned_partitions).items()
        if topic in state.topics
    ]
    return ConsumerGroupHeartbeatRequest(
        group_id=planned.group,
        member_id=generation.member_id,
        member_epoch=OLD_EPOCH,
        instance_id=planned.instance_id,
        topic_partitions=owned,
    )


def request_of_former_generation(
    api: str, member: str, world: World
) -> HeartbeatRequest | ConsumerGroupHeartbeatRequest | SyncGroupRequest | OffsetCommitRequest | None:
    """A request of a member with the generation, or the epoch, before its present one; None if there was none.

    A heartbeat of the consumer protocol says nothing of what the member owns, so that it is no repetition. A commit is
    of a partition that the member does not own, so that it takes nothing back where it is accepted.
    """
    planned, running = world.plan.members[member], world.members.by_name.get(member)
    if running is None or running.is_stopped:
        return None
    generation = running.consumer.generation
    member_id, former = generation.member_id, generation.generation_id - 1
    if not member_id or former < 1:
        return None
    group, instance_id = planned.group, planned.instance_id
    if api != "OffsetCommit" and planned.protocol == CONSUMER:
        return ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member_id, instance_id=instance_id, member_epoch=former
        )
    if api == "Heartbeat":
        return HeartbeatRequest(
            group_id=group, generation_id=former, member_id=member_id, group_instance_id=instance_id
        )
    if api == "SyncGroup":
        return SyncGroupRequest(
            group_id=group,
            generation_id=former,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocol_name=generation.protocol_name,
        )
    topics = _one_partition_of_others(running.consumer.assigned_partitions, world)
    commit = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=former,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=topics,
    )
    return commit if topics else None


def _one_partition_of_others(owned: Collection[TopicPartition], world: World) -> list[OffsetCommitRequestTopic]:
    """Offset 0 of the first partition in the plan that is not among these; empty if there is none."""
    for name, partitions in world.plan.topics.items():
        for index in range(partitions):
            if TopicPartition(name, index) not in owned:
                rows = [OffsetCommitRequestPartition(partition_index=index, committed_offset=0)]
                return [OffsetCommitRequestTopic(name=name, partitions=rows)]
    return []


async def ask_other_broker(client: LabClient, group: str) -> None:
    """Fetch the offsets of a group, and delete it, on a broker that is not its coordinator; with one broker do
    nothing."""
    asked = OffsetFetchRequestGroup(group_id=group, topics=None)
    for message in (OffsetFetchRequest(groups=[asked]), DeleteGroupsRequest(groups_names=[group])):
        await client.send_to_other_broker(group, message)
