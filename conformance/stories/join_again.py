"""Stories about JoinGroup in a group with members: rebalances, and when the join phase completes."""

from regroup.conformance.harness.broker_under_test import FOO_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, expect_equal
from regroup.conformance.harness.groups import (
    completing_group,
    pending_join_member,
    preparing_group,
    stable_group,
    stable_group_of_one,
)
from regroup.conformance.harness.member import ConformanceMember, expect_members
from regroup.conformance.harness.story import DEFAULT_ASSIGNORS, StoryContext, subscription_of
from regroup.protocol.errors import ErrorCode as E

OTHER_TOPIC = {"range": subscription_of(FOO_TOPIC), "roundrobin": subscription_of(FOO_TOPIC)}
OTHER_ORDER = {"roundrobin": DEFAULT_ASSIGNORS["roundrobin"], "range": DEFAULT_ASSIGNORS["range"]}


@case("join.preparing.rejoin-parks", 1)
async def rejoin_waits_for_other_members(story: StoryContext) -> None:
    """During a rebalance the JoinGroup of a rejoining member waits for all other members."""
    anna, ben, _, _ = await preparing_group(story)
    await ben.join_group().expect_pending()
    await anna.expect_rebalance(members=3)


@case("join.preparing.last-rejoin-completes", 1)
async def last_rejoin_completes_join_phase(story: StoryContext) -> None:
    """When the last member rejoins, all members get the generation; only the leader's response lists the members."""
    anna, ben, carla, carla_join = await preparing_group(story)
    anna_join = await anna.join_group().expect_pending()
    expect(await ben.join_group(), error=E.NONE, generation_id=3, leader=anna.id, members=[])
    expect(await carla_join, error=E.NONE, generation_id=3, leader=anna.id, members=[])
    expect_members((await anna_join), anna, ben, carla)
    await story.expect_state("CompletingRebalance", members=3)


@case("join.completing.follower-unchanged", 1)
async def follower_repeats_join_before_sync(story: StoryContext) -> None:
    """A follower that repeats its JoinGroup before SyncGroup gets the same generation again."""
    anna, ben = await completing_group(story)
    response = await ben.join_group()
    expect(response, error=E.NONE, generation_id=2, leader=anna.id, member_id=ben.id, members=[], protocol_name="range")
    expect(response, skip_assignment=False)
    await story.expect_state("CompletingRebalance", members=2)


@case("join.completing.leader-unchanged", 1)
async def leader_repeats_join_before_sync(story: StoryContext) -> None:
    """A leader that repeats its JoinGroup before SyncGroup gets generation and members again; no rebalance starts."""
    anna, ben = await completing_group(story)
    response = await anna.join_group()
    expect(response, error=E.NONE, generation_id=2, leader=anna.id)
    expected = {member.id: member.protocols["range"] for member in (anna, ben)}
    expect_equal("metadata", expected, {member.member_id: member.metadata for member in response.members})
    await story.expect_state("CompletingRebalance")


@case("join.completing.changed-metadata", 1)
async def changed_subscription_before_sync(story: StoryContext) -> None:
    """A member that rejoins with a changed subscription before SyncGroup starts the rebalance again."""
    anna, ben = await completing_group(story)
    ben_sync = await ben.sync_group().expect_pending()
    anna_join = anna.join_group(protocols=OTHER_TOPIC)
    expect(await ben_sync, error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    await anna_join.expect_pending()
    await story.expect_state("PreparingRebalance", members=2)


@case("join.completing.new-member", 1)
async def new_member_before_sync(story: StoryContext) -> None:
    """A new member that joins before SyncGroup starts the rebalance again."""
    _, ben = await completing_group(story)
    ben_sync = await ben.sync_group().expect_pending()
    carla_join = ConformanceMember(story, "carla").join_group(version=3)
    expect(await ben_sync, error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    await carla_join.expect_pending()
    await story.expect_state("PreparingRebalance", members=3)


@case("join.stable.follower-unchanged", 1)
async def unchanged_follower_rejoins_stable_group(story: StoryContext) -> None:
    """A follower that rejoins a stable group without a change gets the current generation; no rebalance starts."""
    anna, ben = await stable_group(story)
    expect(await ben.join_group(), error=E.NONE, generation_id=2, leader=anna.id, members=[], member_id=ben.id)
    await story.expect_state("Stable", members=2)


@case("join.stable.follower-changed-metadata", 1)
async def changed_follower_rejoins_stable_group(story: StoryContext) -> None:
    """A follower that rejoins a stable group with a changed subscription starts a rebalance."""
    anna, ben = await stable_group(story)
    await ben.join_group(protocols=OTHER_TOPIC).expect_pending()
    await anna.expect_rebalance(members=2)


@case("join.stable.leader-unchanged-rebalances", 1)
async def leader_rejoins_stable_group(story: StoryContext) -> None:
    """The leader's JoinGroup always starts a rebalance: that is how new partitions get assigned."""
    anna, ben = await stable_group(story)
    anna_join = await anna.join_group().expect_pending()
    await story.expect_state("PreparingRebalance", members=2)
    expect(await ben.join_group(), error=E.NONE, generation_id=3, leader=anna.id)
    expect(await anna_join, error=E.NONE, generation_id=3)


@case("join.stable.protocol-order-matters", 2)
async def assignors_in_other_order(story: StoryContext) -> None:
    """The same assignors in another order count as a change and start a rebalance."""
    _, ben = await stable_group(story)
    await ben.join_group(protocols=OTHER_ORDER).expect_pending()
    await story.expect_state("PreparingRebalance", members=2)


@case("join.stable.new-member-rebalances", 1)
async def new_member_joins_stable_group(story: StoryContext) -> None:
    """A new member that comes back with its member id starts a rebalance and waits."""
    anna = await stable_group_of_one(story)
    await ConformanceMember(story, "ben").start_rebalance()
    await anna.expect_rebalance(members=2)


@case("join.pending-blocks-completion", 1)
async def pending_join_member_blocks_completion(story: StoryContext) -> None:
    """The join phase does not complete while a pending join member has not come back."""
    anna, ben, _, carla_join = await preparing_group(story)
    await pending_join_member(story, "dora")
    joins = [member.join_group() for member in (anna, ben)]
    for join in (*joins, carla_join):
        await join.expect_pending()
    await story.expect_state("PreparingRebalance", members=3)


@case("join.pending-joins-completes", 1)
async def last_pending_join_member_completes_join_phase(story: StoryContext) -> None:
    """When the last pending join member comes back, the generation begins for all members."""
    anna, ben, _, carla_join = await preparing_group(story)
    dora = await pending_join_member(story, "dora")
    joins = [carla_join, anna.join_group(), ben.join_group()]
    await joins[-1].expect_pending()
    expect(await dora.join_group(), error=E.NONE, generation_id=3, leader=anna.id)
    await story.expect_all(joins, error=E.NONE, generation_id=3)
    await story.expect_state("CompletingRebalance", members=4)


@case("join.pending-survives-rebalance-timeout", 3)
async def pending_join_member_after_rebalance_timeout(story: StoryContext) -> None:
    """The rebalance timeout completes the join phase without pending join members; their member ids stay valid."""
    _, _, carla, carla_join = await preparing_group(story, rebalance_timeout_ms=2000)
    dora = await pending_join_member(story, "dora")
    response = await carla_join
    expect(response, error=E.NONE, generation_id=3, leader=carla.id)
    expect_equal("number of members", 1, len(response.members))
    await story.expect_state("CompletingRebalance", members=1)
    await dora.join_group().expect_pending()
    await story.expect_state("PreparingRebalance", members=2)


@case("join.generation.first-is-one", 1)
async def first_generation_is_one(story: StoryContext) -> None:
    """The first generation is 1; each completed join phase adds one, also the one that leaves the group Empty."""
    anna = await stable_group_of_one(story)
    expect_equal("first generation id", 1, anna.generation_id)
    await anna.leave_group()
    ben = ConformanceMember(story, "ben")
    expect(await ben.join(), error=E.NONE, generation_id=3, leader=ben.id)


@case("join.generation.unchanged-while-preparing", 1)
async def generation_while_preparing(story: StoryContext) -> None:
    """While the next generation is being prepared, the current generation id stays valid."""
    anna, ben, _, _ = await preparing_group(story)
    expect(await anna.heartbeat(generation_id=2), error=E.REBALANCE_IN_PROGRESS)
    expect(await ben.heartbeat(generation_id=3), error=E.ILLEGAL_GENERATION)
