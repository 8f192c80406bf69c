"""Stories about DescribeGroups: the state of a group and its members."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, expect_equal, expect_true
from regroup.conformance.harness.groups import (
    add_member,
    completing_group_of_one,
    empty_group,
    pending_join_member,
    preparing_group,
    stable_group,
    stable_group_of_one,
)
from regroup.conformance.harness.member import ConformanceMember, assignment_of, described_assignments
from regroup.conformance.harness.story import DEFAULT_ASSIGNORS, StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DescribeGroupsRequest, DescribeGroupsResponse

NOT_REQUESTED = -2147483648


@case("describe.unknown-group", 1)
async def describe_unknown_group(story: StoryContext) -> None:
    """Up to v5 a group that does not exist is described as `Dead`, without an error."""
    for version in range(6):
        group = await story.describe(version=version)
        expect(group, error=E.NONE, group_id=story.group_id, group_state="Dead", protocol_type="", protocol_data="")
        expect(group, members=[])


@case("describe.stable", 1)
async def describe_stable_group(story: StoryContext) -> None:
    """A stable group is described with its assignor and each member's client, subscription and assignment."""
    anna = ConformanceMember(story, "anna", client_id="c")
    await anna.join()
    await anna.sync_group({anna.id: assignment_of(anna)})
    group = await story.describe(version=5)
    expect(group, error=E.NONE, group_state="Stable", protocol_type="consumer", protocol_data="range")
    expect_equal("number of members", 1, len(group.members))
    member = group.members[0]
    expect(member, member_id=anna.id, group_instance_id=None, client_id="c")
    expect_true(member.client_host.startswith("/"), f"client_host should be /127.0.0.1, but is {member.client_host}")
    expect(member, member_metadata=DEFAULT_ASSIGNORS["range"], member_assignment=assignment_of(anna))


@case("describe.rebalancing", 1)
async def describe_preparing_group(story: StoryContext) -> None:
    """A rebalancing group is described without assignor and subscriptions, but with the previous assignments."""
    anna, ben, _, _ = await preparing_group(story)
    group = await story.describe()
    expect(group, group_state="PreparingRebalance", protocol_type="consumer", protocol_data="")
    expect_equal("subscriptions", [b""] * 3, [member.member_metadata for member in group.members])
    assignments = described_assignments(group)
    previous = (assignments.get(anna.id), assignments.get(ben.id))
    expect_equal("assignments", (assignment_of(anna), assignment_of(ben)), previous)


@case("describe.completing", 2)
async def describe_completing_group(story: StoryContext) -> None:
    """Before SyncGroup a new group is described without assignor, subscriptions and assignments."""
    await completing_group_of_one(story)
    group = await story.describe()
    expect(group, group_state="CompletingRebalance", protocol_data="")
    expect(group.members[0], member_metadata=b"", member_assignment=b"")


@case(
    "describe.completing.shares-of-before",
    2,
    correction="The catalogue describes members without assignments before SyncGroup. A member that had an assignment "
    "in the previous generation still has it, until SyncGroup; a rebalance that starts before SyncGroup clears it.",
)
async def describe_previous_assignments(story: StoryContext) -> None:
    """Before SyncGroup members are described with their assignments of the previous generation."""
    anna = await stable_group_of_one(story)
    ben = ConformanceMember(story, "ben")
    await add_member(anna, ben)
    group = await story.describe()
    expect(group, group_state="CompletingRebalance")
    expect_equal("assignments", {anna.id: assignment_of(anna), ben.id: b""}, described_assignments(group))
    await ConformanceMember(story, "carla").start_rebalance()
    expect_equal("assignments", {b""}, {*described_assignments(await story.describe()).values()})


@case("describe.empty", 1)
async def describe_empty_group(story: StoryContext) -> None:
    """An Empty group keeps its protocol type."""
    await empty_group(story)
    group = await story.describe()
    expect(group, error=E.NONE, group_state="Empty", protocol_type="consumer", protocol_data="", members=[])


@case("describe.pending-members-hidden", 3)
async def describe_pending_join_members(story: StoryContext) -> None:
    """Pending join members are not described."""
    anna = await stable_group_of_one(story)
    await pending_join_member(story, "ben")
    expect_equal("members", [anna.id], [member.member_id for member in (await story.describe()).members])


@case("describe.static-member", 2)
async def describe_static_members(story: StoryContext) -> None:
    """Since v4 static members are described with their group instance ids."""
    members = await stable_group(story, static=True)
    for version in range(6):
        group = await story.describe(version=version)
        expected = {member.id: member.instance_id if version >= 4 else None for member in members}
        expect_equal("instance ids", expected, {each.member_id: each.group_instance_id for each in group.members})


@case("describe.authorized-operations", 3)
async def describe_authorized_operations(story: StoryContext) -> None:
    """Since v3 authorized operations are returned only when requested."""
    await stable_group_of_one(story)
    request = DescribeGroupsRequest(groups=[story.group_id], include_authorized_operations=True)
    for version in range(3, 6):
        expect(await story.describe(version=version), authorized_operations=NOT_REQUESTED)
        group = (await story.send(request, DescribeGroupsResponse, version=version)).groups[0]
        expect_true(group.authorized_operations != NOT_REQUESTED, "requested operations were not returned")
        expect(group, error=E.NONE)
