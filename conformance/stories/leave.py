"""Stories about LeaveGroup: by the member itself, or of several members by an admin client (KIP-345)."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, expect_equal, expect_member_errors
from regroup.conformance.harness.groups import (
    completing_group,
    empty_group,
    pending_join_member,
    preparing_group,
    stable_group,
    stable_group_of_one,
)
from regroup.conformance.harness.member import ConformanceMember, leave_group, sync_all
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import MemberIdentity


@case("leave.unknown-group.v3", 1)
async def leave_unknown_group(story: StoryContext) -> None:
    """Since v3 each member has its own error code, and the request as a whole succeeds."""
    for version in range(3, 6):
        response = await leave_group(story, MemberIdentity(member_id="m1"), version=version)
        expect_member_errors(response, E.UNKNOWN_MEMBER_ID)
        expect(response.members[0], member_id="m1")


@case("leave.unknown-group.v0-v2", 2)
async def leave_unknown_group_before_v3(story: StoryContext) -> None:
    """Up to v2 the error code of the response is the member's."""
    for version in range(3):
        expect(await leave_group(story, MemberIdentity(member_id="m1"), version=version), error=E.UNKNOWN_MEMBER_ID)


@case("leave.unknown-member", 1)
async def leave_of_unknown_member(story: StoryContext) -> None:
    """LeaveGroup of an unknown member id does not change the group."""
    anna = await stable_group_of_one(story)
    expect_member_errors(await leave_group(story, MemberIdentity(member_id="other")), E.UNKNOWN_MEMBER_ID)
    await anna.expect_stable(members=1)


@case("leave.stable.not-last", 1)
async def one_of_two_members_leaves(story: StoryContext) -> None:
    """When a member leaves a stable group, the others have to rejoin; the generation id does not change yet."""
    anna, ben = await stable_group(story)
    expect_member_errors(await ben.leave_group(), E.NONE)
    await story.expect_state("PreparingRebalance", members=1)
    expect(await anna.heartbeat(generation_id=2), error=E.REBALANCE_IN_PROGRESS)
    expect(await ben.heartbeat(), error=E.UNKNOWN_MEMBER_ID)


@case("leave.stable.last-member", 1)
async def last_member_leaves(story: StoryContext) -> None:
    """When the last member leaves, the group becomes Empty, and the generation id is increased."""
    for version in range(6):
        story.use_group(f"v{version}")
        anna = await stable_group_of_one(story)
        expect(await anna.leave_group(version=version), error=E.NONE)
        await story.expect_state("Empty", members=0)
    expect(await ConformanceMember(story, "ben").join(), error=E.NONE, generation_id=3)


@case("leave.preparing.completes-join", 1)
async def leave_completes_join_phase(story: StoryContext) -> None:
    """When the only member that has not rejoined leaves, the join phase completes."""
    anna, ben, _, carla_join = await preparing_group(story)
    anna_join = await anna.join_group().expect_pending()
    expect_member_errors(await ben.leave_group(), E.NONE)
    await story.expect_all((anna_join, carla_join), error=E.NONE, generation_id=3, leader=anna.id)
    await story.expect_state("CompletingRebalance", members=2)


@case("leave.preparing.not-everyone-joined", 2)
async def leave_while_another_member_is_missing(story: StoryContext) -> None:
    """When a member leaves and another has not rejoined, the join phase continues."""
    _, ben, _, carla_join = await preparing_group(story)
    expect_member_errors(await ben.leave_group(), E.NONE)
    await carla_join.expect_pending()
    await story.expect_state("PreparingRebalance", members=2)


@case(
    "leave.pending-member",
    2,
    correction="When a pending join member leaves a Stable group, a rebalance starts as if a member had left. "
    "In the catalogue the group stays Stable.",
)
async def pending_join_member_leaves(story: StoryContext) -> None:
    """A pending join member can leave; the group then rebalances as if a member had left."""
    anna = await stable_group_of_one(story)
    ben = await pending_join_member(story, "ben")
    expect_member_errors(await ben.leave_group(), E.NONE)
    await anna.expect_rebalance(members=1)
    expect(await anna.join_group(), error=E.NONE, generation_id=2)
    expect(await ben.join_group(), error=E.UNKNOWN_MEMBER_ID)


@case(
    "leave.pending-member-empty-group",
    3,
    correction="Not in the catalogue; found by a random course: unlike a Stable group, an Empty one does not "
    "change when a pending join member leaves.",
)
async def pending_join_member_leaves_empty_group(story: StoryContext) -> None:
    """A pending join member that leaves an Empty group does not change it; the first generation is still 1."""
    anna = await pending_join_member(story, "anna")
    expect_member_errors(await anna.leave_group(), E.NONE)
    await story.expect_state("Empty")
    expect(await ConformanceMember(story, "ben").join(), error=E.NONE, generation_id=1)


@case("leave.pending-member-completes-join", 2)
async def last_pending_join_member_leaves(story: StoryContext) -> None:
    """When the join phase waits only for a pending join member and this one leaves, the join phase completes."""
    anna, ben, _, carla_join = await preparing_group(story)
    dora = await pending_join_member(story, "dora")
    joins = [carla_join, anna.join_group(), ben.join_group()]
    await joins[-1].expect_pending()
    expect_member_errors(await dora.leave_group(), E.NONE)
    await story.expect_all(joins, error=E.NONE, generation_id=3)
    await story.expect_state("CompletingRebalance", members=3)


@case(
    "leave.completing.parked-sync-unanswered",
    3,
    correction="Not in the catalogue; found by a random course: there is never a response, not even UNKNOWN_MEMBER_ID.",
)
async def leave_with_pending_sync(story: StoryContext) -> None:
    """A held SyncGroup is never answered after its member has left; those of others get REBALANCE_IN_PROGRESS."""
    anna, ben, carla = await completing_group(story, size=3)
    ben_sync, carla_sync = ben.sync_group(), carla.sync_group()
    await ben_sync.expect_pending()
    expect_member_errors(await ben.leave_group(), E.NONE)
    expect(await carla_sync, error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    await story.expect_state("PreparingRebalance", members=2)
    await story.expect_all([anna.join_group(), carla.join_group()], error=E.NONE, generation_id=3)
    await sync_all(anna, carla)
    await ben_sync.expect_pending()


@case("leave.batch.mixed", 1)
async def several_members_leave(story: StoryContext) -> None:
    """A member, a pending join member and an unknown one in one request: an error code for each, in request order."""
    anna, ben, _ = await stable_group(story, size=3)
    dora = await pending_join_member(story, "dora")
    response = await leave_group(story, ben, dora, MemberIdentity(member_id="ghost"))
    expect_member_errors(response, E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID)
    expect_equal("members in the response", [ben.id, dora.id, "ghost"], [each.member_id for each in response.members])
    await anna.expect_rebalance(members=2)


@case("leave.batch.duplicate-entry", 3)
async def member_is_named_twice(story: StoryContext) -> None:
    """A member that is named twice in one request leaves once, and is unknown the second time."""
    _, ben = await stable_group(story)
    expect_member_errors(await leave_group(story, ben, ben), E.NONE, E.UNKNOWN_MEMBER_ID)
    await story.expect_state("PreparingRebalance", members=1)


@case("leave.batch.all-members", 2)
async def all_members_leave(story: StoryContext) -> None:
    """When all members leave in one request, the group becomes Empty, one generation later."""
    anna, ben = await stable_group(story)
    expect_member_errors(await leave_group(story, anna, ben), E.NONE, E.NONE)
    await story.expect_state("Empty", members=0)
    expect(await ConformanceMember(story, "carla").join(), error=E.NONE, generation_id=4)


@case("leave.batch.empty-list", 3)
async def leave_without_members(story: StoryContext) -> None:
    """LeaveGroup without members succeeds and does not change the group."""
    anna = await stable_group_of_one(story)
    expect_member_errors(await leave_group(story))
    await anna.expect_stable(members=1)


@case("leave.static.by-instance-only", 1)
async def remove_by_instance_id(story: StoryContext) -> None:
    """A static member can be removed by its group instance id alone; the response has the empty member id."""
    for version in range(3, 6):
        story.use_group(f"v{version}")
        anna, ben = await stable_group(story, static=True)
        identity = MemberIdentity(member_id="", group_instance_id=ben.instance_id)
        response = await leave_group(story, identity, version=version)
        expect_member_errors(response, E.NONE)
        expect(response.members[0], member_id="", group_instance_id=ben.instance_id)
        await anna.expect_rebalance(members=1)


@case("leave.static.unknown-instance", 1)
async def leave_with_unknown_instance_id(story: StoryContext) -> None:
    """LeaveGroup with an unknown group instance id is refused, with or without a known member id."""
    anna, _ = await stable_group(story, static=True)
    identities = [MemberIdentity(member_id=member_id, group_instance_id="nope") for member_id in ("", anna.id)]
    expect_member_errors(await leave_group(story, *identities), E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID)
    await story.expect_state("Stable", members=2)


@case("leave.static.batch-valid", 2)
async def remove_all_static_members(story: StoryContext) -> None:
    """When all static members are removed by their group instance ids, the group becomes Empty."""
    members = await stable_group(story, static=True)
    identities = [MemberIdentity(member_id="", group_instance_id=member.instance_id) for member in members]
    expect_member_errors(await leave_group(story, *identities), E.NONE, E.NONE)
    await story.expect_state("Empty", members=0)


@case("leave.static.by-member-id-only", 3)
async def static_member_leaves_by_member_id(story: StoryContext) -> None:
    """A static member can leave by its member id alone; its group instance id is free again."""
    _, ben = await stable_group(story, static=True)
    expect_member_errors(await leave_group(story, MemberIdentity(member_id=ben.id)), E.NONE)
    await story.expect_state("PreparingRebalance", members=1)
    expect(await ben.heartbeat(), error=E.UNKNOWN_MEMBER_ID)


@case("leave.empty-group", 2)
async def leave_twice(story: StoryContext) -> None:
    """A member that has left cannot leave again."""
    anna = await empty_group(story)
    expect_member_errors(await anna.leave_group(), E.UNKNOWN_MEMBER_ID)
    await story.expect_state("Empty")
