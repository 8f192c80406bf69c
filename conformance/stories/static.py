"""Stories about static members (KIP-345): a restarted process replaces the member with its group instance id."""

from regroup.conformance.harness.broker_under_test import FOO_0
from regroup.conformance.harness.cases import SettingBounds, case
from regroup.conformance.harness.expect import (
    expect,
    expect_equal,
    expect_every_partition,
    expect_member_errors,
)
from regroup.conformance.harness.groups import add_member, stable_group, stable_group_of_one
from regroup.conformance.harness.member import ConformanceMember, assignment_of, expect_member_id, expect_members
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


@case("static.new-instance-joins-stable", 1)
async def new_instance_id_starts_rebalance(story: StoryContext) -> None:
    """A static member with a new group instance id starts a rebalance like any new member."""
    anna, _ = await stable_group(story, static=True)
    await ConformanceMember(story, "carla", instance_id="i-carla").join_group().expect_pending()
    await anna.expect_rebalance(members=3)


@case("static.replace.follower.stable", 1)
async def follower_restarts(story: StoryContext) -> None:
    """A restarted static follower gets a new member id in the current generation; no rebalance starts."""
    anna, ben = await stable_group(story, static=True)
    response = await ben.replacement().join_group()
    expect(response, error=E.NONE, generation_id=2, leader=anna.id, members=[], skip_assignment=False)
    expect(response, protocol_name="range")
    expect_member_id(response, "i-ben-", replaced=ben.id)
    await anna.expect_stable(members=2)


@case("static.replace.leader.stable.v9", 1)
async def leader_restarts(story: StoryContext) -> None:
    """A restarted static leader leads under its new member id, but `skip_assignment` is set (KIP-814)."""
    anna, ben = await stable_group(story, static=True)
    replacement = anna.replacement()
    response = await replacement.join_group(version=9)
    expect(response, error=E.NONE, generation_id=2, leader=response.member_id, skip_assignment=True)
    expect_member_id(response, "i-anna-", replaced=anna.id)
    expect_members(response, replacement, ben)
    await story.expect_state("Stable", members=2)


@case("static.replace.leader.stable.before-v9", 1)
async def leader_restarts_before_v9(story: StoryContext) -> None:
    """Before v9 a restarted static leader gets its old member id as the leader's, so its assignor does not run."""
    for version in range(5, 9):
        story.use_group(f"v{version}")
        anna, _ = await stable_group(story, static=True)
        response = await anna.replacement().join_group(version=version)
        expect(response, error=E.NONE, generation_id=2, leader=anna.id, members=[])
        expect_member_id(response, "i-anna-", replaced=anna.id)
        await story.expect_state("Stable", members=2)


@case("static.replace.selected-protocol-changes", 1)
async def restart_with_other_assignor(story: StoryContext) -> None:
    """A restart that changes the selected assignor of the group starts a rebalance."""
    anna, ben = await stable_group(story, static=True)
    join = await ben.replacement().join_group(protocols={"roundrobin": b"rr"}).expect_pending()
    await story.expect_state("PreparingRebalance", members=2)
    expect(await anna.join_group(), error=E.NONE, generation_id=3, protocol_name="roundrobin")
    expect(await join, error=E.NONE, generation_id=3)


@case("static.replace.preparing", 1)
async def restart_while_preparing(story: StoryContext) -> None:
    """When a static member with a held JoinGroup is replaced, that request is fenced and the new one is held."""
    anna, ben = await stable_group(story, static=True)
    carla_join = await ConformanceMember(story, "carla", instance_id="i-carla").start_rebalance()
    ben_join = await ben.join_group().expect_pending()
    replacement_join = ben.replacement().join_group()
    expect(await ben_join, error=E.FENCED_INSTANCE_ID, member_id=ben.id, leader="", generation_id=-1)
    await replacement_join.expect_pending()
    expect(await anna.join_group(), error=E.NONE, generation_id=3)
    await story.expect_all((replacement_join, carla_join), error=E.NONE, generation_id=3)
    await story.expect_state("CompletingRebalance", members=3)


@case("static.replace.old-id-fenced-everywhere", 1)
async def replaced_member_id_is_fenced(story: StoryContext) -> None:
    """The replaced member id is fenced in requests with the group instance id, and unknown in those without."""
    _, ben = await stable_group(story, static=True)
    expect(await ben.replacement().join_group(), error=E.NONE)
    for instance_id, code in ((ben.instance_id, E.FENCED_INSTANCE_ID), (None, E.UNKNOWN_MEMBER_ID)):
        ben.instance_id = instance_id
        expect(await ben.join_group(), error=code)
        expect(await ben.sync_group(), error=code)
        expect(await ben.heartbeat(), error=code)
        expect_every_partition(await ben.commit_offsets({FOO_0: 1}), code)
        expect_member_errors(await ben.leave_group(), code)
    await story.expect_state("Stable", members=2)


@case("static.replace.keeps-assignment", 1)
async def replacement_keeps_assignment(story: StoryContext) -> None:
    """The replacement of a static member gets its assignment."""
    _, ben = await stable_group(story, static=True)
    replacement = ben.replacement()
    await replacement.join_group()
    expect(await replacement.sync_group(), error=E.NONE, assignment=assignment_of(ben))
    await story.expect_state("Stable")


@case("static.replace.keeps-client-identity", 3)
async def replacement_keeps_client_id(story: StoryContext) -> None:
    """In DescribeGroups the replacement of a static member has the client id of the replaced one."""
    anna = ConformanceMember(story, "anna", instance_id="i1", client_id="c2")
    await anna.join()
    await anna.sync_group({anna.id: b""})
    replacement = ConformanceMember(story, "anna's replacement", instance_id="i1", client_id="c9")
    expect(await replacement.join_group(), error=E.NONE)
    expect((await story.describe()).members[0], member_id=replacement.id, client_id="c2")


@case("static.replace.session-timer-uses-old-timeout", 3)
async def replacement_starts_with_old_session_timeout(story: StoryContext) -> None:
    """The first session of a replacement has the old session timeout; its own applies from the next heartbeat on."""
    short_ms = story.short_session_timeout_ms
    anna = await stable_group_of_one(story, instance_id="i1", session_timeout_ms=short_ms)
    replacement = anna.replacement(session_timeout_ms=max(60_000, 5 * short_ms))
    expect(await replacement.join_group(), error=E.NONE)
    await story.wait_for_state("Empty", timeout_s=3 * short_ms / 1000 + 5)
    expect(await replacement.heartbeat(), error=E.UNKNOWN_MEMBER_ID)


@case("static.known-id.follower-unchanged", 1)
async def static_follower_rejoins_with_member_id(story: StoryContext) -> None:
    """A static follower that rejoins with its member id gets the current generation."""
    anna, ben = await stable_group(story, static=True)
    expect(await ben.join_group(), error=E.NONE, member_id=ben.id, generation_id=2, leader=anna.id, members=[])
    await story.expect_state("Stable", members=2)


@case("static.known-id.leader-rebalances", 2)
async def static_leader_rejoins_with_member_id(story: StoryContext) -> None:
    """A static leader that rejoins with its member id starts a rebalance, as a dynamic one does."""
    anna, ben = await stable_group(story, static=True)
    await anna.join_group().expect_pending()
    await ben.expect_rebalance(members=2)


@case("static.wrong-member-id", 1)
async def join_with_fenced_instance_id(story: StoryContext) -> None:
    """JoinGroup with a group instance id and another member id than its current one is fenced."""
    anna, _ = await stable_group(story, static=True)
    response = await anna.replacement().join_group(member_id="unknown-id")
    expect(response, error=E.FENCED_INSTANCE_ID, member_id="unknown-id")
    await story.expect_state("Stable", members=2)


@case("static.unknown-instance-known-member", 2)
async def join_with_unknown_instance_id(story: StoryContext) -> None:
    """JoinGroup with a known member id and an unknown group instance id is refused."""
    anna, _ = await stable_group(story, static=True)
    anna.instance_id = "nope"
    expect(await anna.join_group(), error=E.UNKNOWN_MEMBER_ID)
    await story.expect_state("Stable", members=2)


@case("static.id-changes-every-time", 2)
async def restart_five_times(story: StoryContext) -> None:
    """Each restart of a static member gets another member id in the same generation."""
    anna, _ = await stable_group(story, static=True)
    member_ids = [anna.id]
    for _ in range(5):
        response = await anna.replacement().join_group()
        expect(response, error=E.NONE, generation_id=2)
        member_ids.append(response.member_id)
    expect_equal("number of member ids", 6, len({*member_ids}))
    await story.expect_state("Stable", members=2)


@case("static.session-expiry", 1)
async def session_of_static_member_expires(story: StoryContext) -> None:
    """A static member whose session expires is removed like any other member."""
    short_ms = story.short_session_timeout_ms
    anna = await stable_group_of_one(story, instance_id="i-anna")
    ben = ConformanceMember(story, "ben", instance_id="i-ben", session_timeout_ms=short_ms)
    await add_member(anna, ben)
    await anna.sync_group({anna.id: b"all"})
    await story.wait_for_state("PreparingRebalance", members=1, timeout_s=short_ms / 1000 + 5)
    expect(await ben.heartbeat(), error=E.UNKNOWN_MEMBER_ID)
    expect(await anna.heartbeat(), error=E.REBALANCE_IN_PROGRESS)


@case(
    "static.full-group-cannot-restart", 2, required_settings={"group.max.size": SettingBounds(at_least=2, at_most=12)}
)
async def restart_in_full_group(story: StoryContext) -> None:
    """In a full group a restarting static member is refused until its old session expires."""
    size = story.setting("group.max.size")
    *_, last = await stable_group(story, static=True, size=size)
    expect(await last.replacement().join_group(), error=E.GROUP_MAX_SIZE_REACHED, member_id="")
    await last.expect_stable(members=size)


@case("static.does-not-leave-on-close", 2)
async def closed_connection_is_no_leave(story: StoryContext) -> None:
    """A closed connection does not change the group; only an expired session does."""
    anna, ben = await stable_group(story, static=True)
    await story.close_connections()
    await story.expect_state("Stable", members=2)
    await story.expect_all((member.heartbeat() for member in (anna, ben)), error=E.NONE)


@case("static.fenced-join-body", 3)
async def body_of_fenced_join(story: StoryContext) -> None:
    """The response to a held JoinGroup that is fenced is empty except for the member id."""
    _, ben = await stable_group(story, static=True)
    await ConformanceMember(story, "carla", instance_id="i-carla").start_rebalance()
    ben_join = await ben.join_group().expect_pending()
    ben.replacement().join_group()
    response = await ben_join
    expect(response, error=E.FENCED_INSTANCE_ID, member_id=ben.id, leader="", generation_id=-1, members=[])
    expect(response, protocol_type=None, protocol_name=None, skip_assignment=False)
