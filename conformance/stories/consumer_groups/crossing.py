"""Stories about members that change their protocol before they have done what the coordinator waits for."""

from regroup.conformance.harness.broker_under_test import SIX_TOPIC, TOPICS
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import ALL, NOTHING, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import ORDINARY, group_of_one
from regroup.conformance.harness.expect import TIMER_TOLERANCE_S, expect, expect_equal, expect_true
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.migration import classic_assignment, mixed_group, owning
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.consumer.subscription import Subscription, assigned_partitions, encode_subscription
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.java_order import in_hash_map_order

SHORT_REBALANCE_MS, LONGER_REBALANCE_MS = 1_500, 4_000


async def cross_over(group: ConsumerProtocolGroup, carla: ConformanceMember) -> None:
    """Let Carla send a ConsumerGroupHeartbeat with which she speaks the consumer protocol."""
    expect_answer(await group.beat(carla.id, 0, rebalance_timeout_ms=60_000, names=(SIX_TOPIC,), owned=NOTHING))
    expect(await group.described_member(carla.id), member_type=1)


async def expect_only(group: ConsumerProtocolGroup, member_id: str) -> None:
    """Wait until this member is the only one."""
    timeout_s = SHORT_REBALANCE_MS / 1000 + TIMER_TOLERANCE_S
    await group.story.wait_until(lambda: group.expect_members(member_id), timeout_s)


@case("cg.up.sync-timeout-after-crossing", 3, required_settings=ORDINARY)
async def crosses_over_before_sync(story: StoryContext) -> None:
    """A classic member that has not sent SyncGroup, and then speaks the consumer protocol, is removed all the same."""
    group = await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning(), rebalance_timeout_ms=SHORT_REBALANCE_MS)
    expect(await carla.join(), error=E.NONE)
    await cross_over(group, carla)
    await expect_only(group, "m1")


@case("cg.up.join-timeout-after-crossing", 3, required_settings=ORDINARY)
async def crosses_over_before_join(story: StoryContext) -> None:
    """A classic member that was asked to join, and then speaks the consumer protocol, is removed all the same."""
    group, carla = await mixed_group(story, rebalance_timeout_ms=SHORT_REBALANCE_MS)
    expect(await carla.heartbeat(), error=E.REBALANCE_IN_PROGRESS)
    await cross_over(group, carla)
    await expect_only(group, "n1")


@case("cg.up.sync-timeout-after-downgrade", 3, required_settings=ORDINARY)
async def crosses_over_after_downgrade(story: StoryContext) -> None:
    """A SyncGroup that a consumer group waited for is due after a downgrade and an upgrade, although one was sent."""
    group = await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning(), rebalance_timeout_ms=LONGER_REBALANCE_MS)
    expect(await carla.join(), error=E.NONE)
    await group.leave("m1")
    expect(await carla.join_group(), error=E.NONE)
    expect(await carla.sync_group({carla.id: classic_assignment(ALL)}), error=E.NONE)
    expect_answer(await group.join("m2"))
    await cross_over(group, carla)
    await story.wait_until(lambda: group.expect_members("m2"), LONGER_REBALANCE_MS / 1000 + TIMER_TOLERANCE_S)


@case("cg.down.unknown-member-of-empty-group", 3, required_settings=ORDINARY)
async def unknown_member_joins_empty_consumer_group(story: StoryContext) -> None:
    """A JoinGroup with a member id is refused by an Empty consumer group, and makes no classic group of it."""
    group = await group_of_one(story)
    await group.leave("m1")
    carla = ConformanceMember(story, "carla", protocols=owning())
    expect(await carla.join_group(member_id="made-up"), error=E.UNKNOWN_MEMBER_ID, member_id="made-up")
    # Whether the consumer group is found depends on other records in Kafka, which forgets it without writing so.
    expect(await story.describe(version=5), error=E.NONE, group_state="Dead")


@case("cg.cm.order-of-topics", 3, required_settings=ORDINARY)
async def order_of_assigned_topics(story: StoryContext) -> None:
    """The topics of a classic member's assignment have the order of a Java hash map of their ids."""
    group = await group_of_one(story)
    metadata = encode_subscription(Subscription(version=1, topics=(*TOPICS,)))
    carla = ConformanceMember(story, "carla", protocols={"range": metadata})
    expect(await carla.join(), error=E.NONE)
    await group.leave("m1")
    (member,) = (await story.describe()).members
    named = [*dict.fromkeys(each.topic for each in assigned_partitions(member.member_assignment))]
    expect_true(len(named) > 1, f"carla should have partitions of several topics, not of {named}")
    wanted = in_hash_map_order(named, lambda name: uuid_hash(story.target.topic_ids[name]))
    expect_equal("topics", wanted, named)


def uuid_hash(topic_id: bytes) -> int:
    """`Uuid.hashCode()` of Kafka, as an unsigned 32-bit integer."""
    mixed = int.from_bytes(topic_id[:8]) ^ int.from_bytes(topic_id[8:])
    return (mixed >> 32 ^ mixed) & 0xFFFFFFFF
