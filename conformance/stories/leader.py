"""Stories about the leader of a group: its first member, for as long as it rejoins."""

from regroup.conformance.harness.cases import SettingBounds, case
from regroup.conformance.harness.expect import expect, expect_equal, expect_member_errors, expect_one_of, expect_true
from regroup.conformance.harness.groups import completing_group, empty_group, preparing_group, stable_group
from regroup.conformance.harness.member import ConformanceMember, expect_members, leave_group
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


@case("leader.first-member", 1, required_settings={"group.initial.rebalance.delay.ms": SettingBounds(at_least=500)})
async def first_member_leads(story: StoryContext) -> None:
    """The first member of a group becomes its leader, also when other members join the same generation."""
    anna, ben = ConformanceMember(story, "anna"), ConformanceMember(story, "ben")
    anna_join = await anna.start_rebalance()
    ben_join = await ben.start_join()
    await story.expect_all((anna_join, ben_join), error=E.NONE, generation_id=1, leader=anna.id)


@case("leader.kept-across-rebalances", 1)
async def leader_stays_across_rebalances(story: StoryContext) -> None:
    """A leader that rejoins stays the leader, in any order of the members."""
    anna, ben = await stable_group(story)
    await ConformanceMember(story, "carla").start_rebalance()
    ben_join = await ben.join_group().expect_pending()
    expect(await anna.join_group(), error=E.NONE, generation_id=3, leader=anna.id)
    expect(await ben_join, error=E.NONE, generation_id=3, leader=anna.id)


@case("leader.leaves", 1)
async def leader_leaves(story: StoryContext) -> None:
    """When the leader leaves, exactly one of the other members leads the next generation."""
    anna, ben, carla = await stable_group(story, size=3)
    expect_member_errors(await anna.leave_group(), E.NONE)
    await story.expect_state("PreparingRebalance", members=2)
    requests = [ben.join_group(), carla.join_group()]
    responses = [await request for request in requests]
    expect_equal("number of generations", 1, len({response.generation_id for response in responses}))
    leaders = {response.leader for response in responses}
    expect_true(leaders in ({ben.id}, {carla.id}), f"expected one of the other members as leader, got {leaders}")
    expect_equal("listed members", [0, 2], sorted(len(response.members) for response in responses))


@case("leader.dynamic-leader-silent", 1)
async def dynamic_leader_does_not_rejoin(story: StoryContext) -> None:
    """A dynamic leader that does not rejoin in time is removed, and another member leads."""
    anna, ben, carla, carla_join = await preparing_group(story, rebalance_timeout_ms=2000)
    response = await ben.join_group()
    expect(response, error=E.NONE, generation_id=3)
    expect(await carla_join, error=E.NONE, generation_id=3, leader=response.leader)
    expect_one_of("leader", (ben.id, carla.id), response.leader)
    expect(await anna.heartbeat(), error=E.UNKNOWN_MEMBER_ID)
    await story.expect_state("CompletingRebalance", members=2)


@case("leader.rejoins-in-time", 2)
async def leader_rejoins_in_time(story: StoryContext) -> None:
    """A leader that rejoins shortly before the rebalance timeout stays the leader."""
    anna, ben, _, carla_join = await preparing_group(story, rebalance_timeout_ms=3000)
    ben_join = ben.join_group()
    await story.sleep(1.5)
    expect(await anna.join_group(), error=E.NONE, generation_id=3, leader=anna.id)
    await story.expect_all((ben_join, carla_join), leader=anna.id)


@case("leader.none-when-empty", 2)
async def next_member_of_empty_group_leads(story: StoryContext) -> None:
    """An Empty group has no leader; the next member becomes the leader."""
    await empty_group(story)
    ben = ConformanceMember(story, "ben")
    expect(await ben.join(), error=E.NONE, leader=ben.id, generation_id=3)


@case("leader.changes-mid-completing-by-expiry", 2)
async def leader_expires_before_sync(story: StoryContext) -> None:
    """A leader whose session expires before its SyncGroup is removed; its followers have to rejoin."""
    short_ms = story.short_session_timeout_ms
    anna, ben = await completing_group(story, session_timeout_ms=short_ms)
    ben_sync = ben.sync_group()
    expect(await ben_sync.response_within(short_ms / 1000 + 5), error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    expect(await ben.sync_group(), error=E.REBALANCE_IN_PROGRESS)
    expect(await anna.sync_group(), error=E.UNKNOWN_MEMBER_ID)
    expect(await ben.join_group(), error=E.NONE, generation_id=3, leader=ben.id)


@case("leader.static-leader-silent", 1)
async def static_leader_does_not_rejoin(story: StoryContext) -> None:
    """A static leader that does not rejoin in time stays a member, and a member that rejoined leads."""
    anna, ben = await stable_group(story, static=True, rebalance_timeout_ms=2000)
    response = await ben.join_group(protocols={"range": b"other"})
    expect(response, error=E.NONE, generation_id=3, leader=ben.id)
    expect_members(response, anna, ben)
    expect_member_errors(await leave_group(story, anna), E.NONE)
