"""Stories about the rebalance timeout: within it members have to rejoin, and to send SyncGroup."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, expect_duration, expect_equal, expect_member_errors, expect_true
from regroup.conformance.harness.groups import (
    add_member,
    completing_group,
    preparing_group,
    stable_group,
    stable_group_of_one,
)
from regroup.conformance.harness.member import ConformanceMember, expect_members, leave_group, sync_all
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


@case("timeout.rebalance.expels-silent-dynamic-members", 1)
async def dynamic_members_that_do_not_rejoin_are_removed(story: StoryContext) -> None:
    """Dynamic members that send heartbeats but do not rejoin are removed at the rebalance timeout."""
    anna, ben, carla, carla_join = await preparing_group(story, rebalance_timeout_ms=2000)
    while not carla_join.is_done:
        await anna.heartbeat()
        await ben.heartbeat()
        await story.sleep(0.2)
    response = await carla_join
    expect(response, error=E.NONE, generation_id=3, leader=carla.id)
    expect_equal("number of members", 1, len(response.members))
    await story.expect_all((member.heartbeat() for member in (anna, ben)), error=E.UNKNOWN_MEMBER_ID)
    await story.expect_state("CompletingRebalance", members=1)


@case("timeout.rebalance.keeps-silent-static-members", 1)
async def static_members_that_do_not_rejoin_stay(story: StoryContext) -> None:
    """A static member that does not rejoin before the rebalance timeout stays a member."""
    anna, ben = await stable_group(story, static=True, rebalance_timeout_ms=2000)
    carla = ConformanceMember(story, "carla", rebalance_timeout_ms=2000)
    carla_join = await carla.start_rebalance()
    response = await anna.join_group()
    expect(response, error=E.NONE, generation_id=3, leader=anna.id)
    expect(await carla_join, error=E.NONE, generation_id=3)
    expect_members(response, anna, ben, carla)
    expect(await ben.heartbeat(generation_id=3), error=E.NONE)


@case("timeout.rebalance.nobody-rejoined-only-static-left", 1)
async def no_static_member_rejoins(story: StoryContext) -> None:
    """When only static members are left that have not rejoined, the rebalance goes on in the same generation."""
    anna, ben, carla = await stable_group(story, size=3, static=True, rebalance_timeout_ms=2000)
    expect_member_errors(await carla.leave_group(), E.NONE)
    await story.sleep(4.5)
    await story.expect_state("PreparingRebalance", members=2)
    await story.expect_all([anna.join_group(), ben.join_group()], error=E.NONE, generation_id=3)


@case("timeout.rebalance.is-max-of-members", 1)
async def longest_rebalance_timeout_counts(story: StoryContext) -> None:
    """A rebalance lasts at most the longest rebalance timeout of all members, not the new member's."""
    await stable_group_of_one(story, rebalance_timeout_ms=3000)
    ben_join = await ConformanceMember(story, "ben", rebalance_timeout_ms=500).start_rebalance()
    expect(await ben_join, error=E.NONE, generation_id=2)
    expect_duration("rebalance", ben_join.duration_s, 3)


@case("timeout.rebalance.deadline-not-extended", 2)
async def later_members_do_not_extend_deadline(story: StoryContext) -> None:
    """A member that joins later does not extend the deadline of a running rebalance."""
    _, _, _, carla_join = await preparing_group(story, rebalance_timeout_ms=3000)
    await story.sleep(1.5)
    dora_join = ConformanceMember(story, "dora", rebalance_timeout_ms=3000).join_group(version=3)
    await story.expect_all((carla_join, dora_join), error=E.NONE, generation_id=3)
    expect_duration("rebalance", carla_join.duration_s, 3)
    expect_true(dora_join.duration_s < 2.9, "the later member should have waited for the rest of the timeout only")


@case("timeout.rebalance.session-expiry-completes-join", 2)
async def session_expiry_completes_join_phase(story: StoryContext) -> None:
    """When the session of the only member that has not rejoined expires, the join phase completes."""
    short_ms = story.short_session_timeout_ms
    await stable_group_of_one(story, session_timeout_ms=short_ms)
    ben = ConformanceMember(story, "ben")
    ben_join = await ben.start_rebalance()
    expect(await ben_join.response_within(short_ms / 1000 + 10), error=E.NONE, generation_id=2, leader=ben.id)
    await story.expect_state("CompletingRebalance", members=1)


@case("timeout.sync.nobody-syncs", 1)
async def no_member_syncs(story: StoryContext) -> None:
    """Members that send heartbeats but never SyncGroup are removed at the rebalance timeout."""
    members = await completing_group(story, size=3, rebalance_timeout_ms=2000)
    await story.wait_until(lambda: expect_empty_despite_heartbeats(story, members))
    await story.expect_all((member.heartbeat() for member in members), error=E.UNKNOWN_MEMBER_ID)


async def expect_empty_despite_heartbeats(story: StoryContext, members: list[ConformanceMember]) -> None:
    """Let all members send a heartbeat, and expect that the group is Empty."""
    for member in members:
        await member.heartbeat()
    await story.expect_state("Empty", members=0)


@case("timeout.sync.followers-missing", 1)
async def followers_never_sync(story: StoryContext) -> None:
    """Followers that never send SyncGroup are removed, although the group is already Stable."""
    anna, ben, carla = await completing_group(story, size=3, rebalance_timeout_ms=2000)
    expect(await anna.sync_group({anna.id: b"A"}), error=E.NONE)
    await story.expect_state("Stable", members=3)
    await story.wait_for_state("PreparingRebalance", members=1)
    expect(await anna.heartbeat(), error=E.REBALANCE_IN_PROGRESS)
    await story.expect_all((member.heartbeat() for member in (ben, carla)), error=E.UNKNOWN_MEMBER_ID)


@case("timeout.sync.leader-missing", 1)
async def leader_never_syncs(story: StoryContext) -> None:
    """A leader that never sends SyncGroup is removed; its followers have to rejoin."""
    anna, ben, carla = await completing_group(story, size=3, rebalance_timeout_ms=2000)
    await story.expect_all([ben.sync_group(), carla.sync_group()], error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    expect(await anna.heartbeat(), error=E.UNKNOWN_MEMBER_ID)
    await story.expect_state("PreparingRebalance", members=2)
    joins = [member.join_group() for member in (ben, carla)]
    expect_equal("number of leaders", 1, len({(await join).leader for join in joins}))


@case("timeout.sync.duration", 2)
async def longest_timeout_counts_for_sync(story: StoryContext) -> None:
    """The sync phase lasts at most the longest rebalance timeout of all members."""
    anna = await stable_group_of_one(story, rebalance_timeout_ms=3000)
    ben = ConformanceMember(story, "ben", rebalance_timeout_ms=500)
    await add_member(anna, ben)
    ben_sync = ben.sync_group()
    expect(await ben_sync, error=E.REBALANCE_IN_PROGRESS)
    expect_duration("sync phase", ben_sync.duration_s, 2.7, 3)


@case("timeout.sync.removes-static-members-too", 2)
async def static_member_never_syncs(story: StoryContext) -> None:
    """A static member that never sends SyncGroup is removed too, and its group instance id is free again."""
    anna, ben = await completing_group(story, static=True, rebalance_timeout_ms=2000)
    expect(await anna.sync_group({anna.id: b"A"}), error=E.NONE)
    await story.wait_for_state("PreparingRebalance", members=1)
    expect(await ben.heartbeat(), error=E.UNKNOWN_MEMBER_ID)
    expect(await anna.heartbeat(), error=E.REBALANCE_IN_PROGRESS)


@case("timeout.sync.cancelled-by-new-rebalance", 2)
async def new_rebalance_cancels_sync_timeout(story: StoryContext) -> None:
    """A new rebalance cancels the sync timeout of the generation before."""
    anna, ben = await completing_group(story, rebalance_timeout_ms=2000)
    await story.sleep(1)
    carla = ConformanceMember(story, "carla", rebalance_timeout_ms=2000)
    carla_join = await carla.start_rebalance()
    await story.expect_all([anna.join_group(), ben.join_group(), carla_join], error=E.NONE, generation_id=3)
    await story.sleep(1.3)
    await story.expect_state("CompletingRebalance", members=3)
    await sync_all(anna, ben, carla)
    await story.expect_state("Stable", members=3)


@case("timeout.sync.stale-static-id-forces-rebalance", 3)
async def replaced_member_id_still_has_to_sync(story: StoryContext) -> None:
    """A static member that was replaced before its SyncGroup stays a pending sync member: the group rebalances."""
    anna, ben = await completing_group(story, static=True, rebalance_timeout_ms=2000)
    expect(await anna.sync_group({anna.id: b"A", ben.id: b"B"}), error=E.NONE)
    replacement = ben.replacement(rebalance_timeout_ms=2000)
    expect(await replacement.join_group(), error=E.NONE, generation_id=2)
    expect(await replacement.sync_group(), error=E.NONE, assignment=b"B")
    await story.wait_for_state("PreparingRebalance")
    expect_member_errors(await leave_group(story, replacement), E.NONE)
