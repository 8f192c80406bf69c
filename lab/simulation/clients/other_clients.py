"""Steps of clients that are no members of the plan: administrators, and new members of which nothing comes any more."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan import rare_steps as rare
from regroup.lab.plan import steps as s
from regroup.lab.plan.plan import MemberPlan
from regroup.lab.plan.validation import CLASSIC
from regroup.lab.simulation.clients.flawed_requests import flawed_request
from regroup.lab.simulation.clients.lab_client import LabClient
from regroup.lab.simulation.clients.rare_clients import (
    ask_other_broker,
    come_and_go,
    commit_and_join,
    heartbeat_with_old_epoch,
    request_of_former_generation,
)
from regroup.lab.simulation.clients.unsubscribed_consumer import UNSUBSCRIBED_HOST, UnsubscribedConsumer
from regroup.lab.simulation.world import World
from regroup.protocol.consumer.subscription import (
    HIGHEST_VERSION,
    Subscription,
    TopicPartition,
    encode_subscription,
)
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.describe import ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

ADMINISTRATOR_HOST: Final = "the administrator"
NEW_MEMBER_HOST: Final = "the new member"
REASON_OF_REMOVAL: Final = "member was removed by an admin"
"""The reason that Kafka's `Admin` gives by default in `removeMembersFromConsumerGroup`."""
BEFORE_MEMBER_IDS: Final = {JoinGroupRequest.api_key: 3}
"""JoinGroup before KIP-394: a new member is added at once."""
OLDEST_SUBSCRIPTION: Final = 0
RACK_ID: Final = "rack-1"
COMMIT_BY_NAME: Final = {OffsetCommitRequest.api_key: 9}


def perform_as_other_client(step: s.ClientStep, world: World) -> None:
    """Send the request of a step, in a task of its own."""
    match step:
        case s.MemberIsExpelled(member):
            planned = world.plan.members[member]
            if (message := _leave_group(member, planned, world)) is not None:
                _spawn(world, ADMINISTRATOR_HOST, planned.group, message)
        case s.OffsetsAreDeleted(topic, group):
            rows = [OffsetDeleteRequestPartition(partition_index=each) for each in _partitions(topic, world)]
            topics = [OffsetDeleteRequestTopic(name=topic, partitions=rows)]
            _spawn(world, ADMINISTRATOR_HOST, group, OffsetDeleteRequest(group_id=group, topics=topics))
        case s.OffsetsAreAltered(topic, group, offset):
            _spawn(world, ADMINISTRATOR_HOST, group, _commit(topic, group, offset, world), COMMIT_BY_NAME)
        case s.GroupIsDeleted(group):
            _spawn(world, ADMINISTRATOR_HOST, group, DeleteGroupsRequest(groups_names=[group]))
        case s.NewMemberDoesNotReturn(group):
            _spawn_once(world, group, _join_group(_first_of(group, world)))
        case s.NewMemberFallsSilent(group):
            _spawn_once(world, group, _join_group(_first_of(group, world)), BEFORE_MEMBER_IDS)
        case s.GroupIsDescribed(group):
            _spawn(world, ADMINISTRATOR_HOST, group, DescribeGroupsRequest(groups=[group]))
            if not world.plan.release:
                _spawn(world, ADMINISTRATOR_HOST, group, ConsumerGroupDescribeRequest(group_ids=[group]))
        case s.InvalidRequestIsSent(group, flaw):
            _spawn(
                world,
                ADMINISTRATOR_HOST,
                group,
                flawed_request(flaw, group, next(iter(world.plan.topics))),
                COMMIT_BY_NAME,
            )
        case _:
            _perform_rare_step(step, world)


def _perform_rare_step(step: rare.RareClientStep, world: World) -> None:
    """Send what hardly any scenario needs."""
    match step:
        case rare.InstanceIdIsTaken(member):
            planned = world.plan.members[member]
            if planned.instance_id is not None:
                _spawn_once(world, planned.group, replace(_join_group(planned), group_instance_id=planned.instance_id))
        case rare.CommitsUnsubscribed():
            _commit_unsubscribed(step, world)
        case rare.ProtocolIsChanged(member):
            if (heartbeat := _heartbeat_of_consumer_protocol(member, world)) is not None:
                _spawn(world, NEW_MEMBER_HOST, heartbeat.group_id, heartbeat)
        case rare.OldMemberComesAndGoes(group):
            client = world.members.other_client(NEW_MEMBER_HOST)
            world.spawn(come_and_go(client, _join_group(_first_of(group, world), OLDEST_SUBSCRIPTION)))
        case rare.RackIsLeftOut(group):
            client = world.members.other_client(NEW_MEMBER_HOST)
            racks = [_join_group(_first_of(group, world), HIGHEST_VERSION, rack_id) for rack_id in (RACK_ID, None)]
            world.spawn(come_and_go(client, *racks))
        case rare.NewMemberCommitsAndJoins(group):
            first = _first_of(group, world)
            client, other = (world.members.other_client(NEW_MEMBER_HOST, COMMIT_BY_NAME) for _ in range(2))
            world.spawn(commit_and_join(client, other, _join_group(first), _commit(first.topics[0], group, 0, world)))
        case rare.OldEpochIsSent(member):
            if (heartbeat := heartbeat_with_old_epoch(member, world)) is not None:
                _spawn(world, NEW_MEMBER_HOST, heartbeat.group_id, heartbeat)
        case rare.OldGenerationIsSent(api, member):
            if (message := request_of_former_generation(api, member, world)) is not None:
                _spawn_once(world, message.group_id, message, COMMIT_BY_NAME)
        case rare.OtherBrokerIsAsked(group):
            world.spawn(ask_other_broker(world.members.other_client(ADMINISTRATOR_HOST), group))
        case rare.StableOffsetsAreFetched(group):
            asked = OffsetFetchRequestGroup(group_id=group, topics=None)
            _spawn_once(world, group, OffsetFetchRequest(groups=[asked], require_stable=True))


def _spawn(
    world: World, host: str, group: str, message: Message, max_versions: Mapping[int, int] | None = None
) -> None:
    async def send() -> None:
        await world.members.other_client(host, max_versions).request(group, message)

    world.spawn(send())


def _spawn_once(world: World, group: str, message: Message, max_versions: Mapping[int, int] | None = None) -> None:
    """Send one request to this group, in a task of its own. Nothing waits for its response, which may be held for
    minutes."""
    client: LabClient = world.members.other_client(NEW_MEMBER_HOST, max_versions)
    task = world.loop.create_task(client.send_once(group, message))
    world.background.add(task)
    task.add_done_callback(world.background.discard)


def _first_of(group: str, world: World) -> MemberPlan:
    """The options of the first member of a group in the plan."""
    return next(each for each in world.plan.members.values() if each.group == group)


def _join_group(planned: MemberPlan, version: int = 1, rack_id: str | None = None) -> JoinGroupRequest:
    """The JoinGroup of a new member with these options; `version` is that of its subscription."""
    metadata = encode_subscription(Subscription(version, planned.topics, rack_id=rack_id))
    return JoinGroupRequest(
        group_id=planned.group,
        session_timeout_ms=planned.session_timeout_ms,
        rebalance_timeout_ms=planned.max_poll_interval_ms,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=each, metadata=metadata) for each in planned.assignors],
    )


def _commit_unsubscribed(step: rare.CommitsUnsubscribed, world: World) -> None:
    """Commit the same offset of each partition of a topic, as a consumer that has not subscribed."""
    transport = world.members.other_client(UNSUBSCRIBED_HOST).transport
    observe = world.checker.members.on_unsubscribed_commit if world.checker else lambda sent, change: None
    consumer = UnsubscribedConsumer(step.group, transport, observe)
    consumer.commit({TopicPartition(step.topic, each): step.count for each in _partitions(step.topic, world)})


def _heartbeat_of_consumer_protocol(member: str, world: World) -> ConsumerGroupHeartbeatRequest | None:
    """The heartbeat with which a classic member would join by the consumer protocol; None if it is in no group."""
    planned, running = world.plan.members[member], world.members.by_name.get(member)
    if running is None or planned.protocol != CLASSIC or not running.consumer.generation.member_id:
        return None
    return ConsumerGroupHeartbeatRequest(
        group_id=planned.group,
        member_id=running.consumer.generation.member_id,
        member_epoch=0,
        rebalance_timeout_ms=planned.max_poll_interval_ms,
        subscribed_topic_names=list(planned.topics),
        topic_partitions=[],
    )


def _leave_group(member: str, planned: MemberPlan, world: World) -> LeaveGroupRequest | None:
    running = world.members.by_name.get(member)
    member_id = "" if running is None or planned.instance_id else running.consumer.generation.member_id
    if not member_id and not planned.instance_id:
        return None
    identity = MemberIdentity(member_id=member_id, group_instance_id=planned.instance_id, reason=REASON_OF_REMOVAL)
    return LeaveGroupRequest(group_id=planned.group, member_id=member_id, members=[identity])


def _commit(topic: str, group: str, offset: int, world: World) -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(partition_index=each, committed_offset=offset)
        for each in _partitions(topic, world)
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
    )


def _partitions(topic: str, world: World) -> range:
    state = world.brokers.cluster_state
    known = state.topics.get(topic) if state else None
    return range(known.partitions if known else 1)
