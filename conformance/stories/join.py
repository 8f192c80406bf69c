"""Stories about JoinGroup: which members are accepted, with which member id, and what the response has."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, expect_equal, expect_true
from regroup.conformance.harness.groups import (
    empty_group,
    pending_join_member,
    stable_group,
    stable_group_of_one,
)
from regroup.conformance.harness.member import ConformanceMember, expect_member_id
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


@case("join.unknown-member-id.nonexistent-group", 1)
async def join_unknown_group_with_member_id(story: StoryContext) -> None:
    """JoinGroup with a member id is refused where the group does not exist, and creates no group."""
    for instance_id in (None, "i1"):
        anna = ConformanceMember(story, "anna", instance_id=instance_id)
        response = await anna.join_group(member_id="some-id")
        expect(response, error=E.UNKNOWN_MEMBER_ID, member_id="some-id", generation_id=-1)
    await story.expect_state("Dead")


@case("join.member-id-required.first-request", 1)
async def first_join_of_dynamic_member(story: StoryContext) -> None:
    """Since v4 a dynamic member's first JoinGroup gets MEMBER_ID_REQUIRED; the group exists and is Empty (KIP-394)."""
    for version in range(4, 10):
        response = await ConformanceMember(story, "anna", client_id="c").join_group(version=version)
        expect(response, error=E.MEMBER_ID_REQUIRED, generation_id=-1, leader="", members=[])
        expect_member_id(response, "c-")
    await story.wait_for_state("Empty", members=0)


@case("join.member-id-required.not-before-v4", 1)
async def first_join_before_v4(story: StoryContext) -> None:
    """Up to v3 the first JoinGroup is accepted; the member learns its id when the generation begins."""
    for version in range(4):
        story.use_group(f"v{version}")
        response = await ConformanceMember(story, "anna").join_group(version=version)
        expect(response, error=E.NONE, generation_id=1, leader=response.member_id)
        expect_true(response.member_id != "", "the response should have a member id")


@case("join.member-id-required.not-for-static", 1)
async def first_join_of_static_member(story: StoryContext) -> None:
    """The first JoinGroup of a static member is accepted in every version."""
    for version in range(5, 10):
        story.use_group(f"v{version}")
        response = await ConformanceMember(story, "anna", instance_id="i1").join_group(version=version)
        expect(response, error=E.NONE, generation_id=1, leader=response.member_id)
        expect_member_id(response, "i1-")


@case("join.member-id-required.stable-group-undisturbed", 1)
async def member_id_required_starts_no_rebalance(story: StoryContext) -> None:
    """A JoinGroup that gets MEMBER_ID_REQUIRED starts no rebalance."""
    anna = await stable_group_of_one(story)
    expect(await ConformanceMember(story, "ben").join_group(), error=E.MEMBER_ID_REQUIRED)
    await anna.expect_stable(members=1)


@case("join.new-group.rejected-request-still-creates-group", 3)
async def refused_join_creates_group(story: StoryContext) -> None:
    """A first JoinGroup that is refused for its protocol type leaves an Empty group behind."""
    expect(await ConformanceMember(story, "anna", protocol_type="").join_group(), error=E.INCONSISTENT_GROUP_PROTOCOL)
    await story.wait_for_state("Empty", members=0)


@case("join.empty-group.empty-protocol-type", 2)
async def join_without_protocol_type(story: StoryContext) -> None:
    """An Empty group refuses a member without a protocol type."""
    await empty_group(story)
    response = await ConformanceMember(story, "ben", protocol_type="").join_group()
    expect(response, error=E.INCONSISTENT_GROUP_PROTOCOL, member_id="")
    await story.expect_state("Empty")


@case("join.nonempty.protocol-type-mismatch", 1)
async def join_with_other_protocol_type(story: StoryContext) -> None:
    """A group with members refuses a member of another protocol type and gives it no member id."""
    anna = await stable_group_of_one(story)
    response = await ConformanceMember(story, "ben", protocol_type="connect").join_group()
    expect(response, error=E.INCONSISTENT_GROUP_PROTOCOL, member_id="")
    await anna.expect_stable(members=1)


@case("join.nonempty.no-common-protocol", 1)
async def join_without_common_assignor(story: StoryContext) -> None:
    """A new member must support an assignor that all members support."""
    await stable_group_of_one(story, protocols={"range": b"r"})
    response = await ConformanceMember(story, "ben", protocols={"roundrobin": b"rr"}).join_group()
    expect(response, error=E.INCONSISTENT_GROUP_PROTOCOL, member_id="")
    await story.expect_state("Stable", members=1)


@case(
    "join.pending.with-instance-id",
    3,
    correction="The catalogue does not say which member id the response has: none, not that of the request.",
)
async def pending_join_member_with_instance_id(story: StoryContext) -> None:
    """A member id that was given to a dynamic member cannot be used with a group instance id."""
    ben = await pending_join_member(story, "ben")
    ben.instance_id = "i1"
    expect(await ben.join_group(), error=E.UNKNOWN_SERVER_ERROR, member_id="")


@case("join.unknown-member-id.existing-group", 1)
async def join_with_unknown_member_id(story: StoryContext) -> None:
    """JoinGroup with an unknown member id is refused and does not change the group."""
    anna = await stable_group_of_one(story)
    response = await ConformanceMember(story, "ben").join_group(member_id="other")
    expect(response, error=E.UNKNOWN_MEMBER_ID, member_id="other", generation_id=-1)
    await anna.expect_stable(members=1)


@case("join.empty-state.known-member", 2)
async def join_with_member_id_after_leave(story: StoryContext) -> None:
    """A member that has left the group and rejoins with its old member id is refused."""
    anna = await empty_group(story)
    expect(await anna.join_group(), error=E.UNKNOWN_MEMBER_ID, member_id=anna.id, generation_id=-1)
    await story.expect_state("Empty")


@case("join.member-id-format", 2)
async def member_id_format(story: StoryContext) -> None:
    """A member id is the client id, or the group instance id of a static member, followed by a random UUID."""
    for instance_id, prefix in ((None, "c1-"), ("i1", "i1-")):
        response = await ConformanceMember(story, "anna", client_id="c1", instance_id=instance_id).join_group()
        expect_member_id(response, prefix)
        lengths = [len(part) for part in response.member_id.removeprefix(prefix).split("-")]
        expect_equal("lengths of the UUID's parts", [8, 4, 4, 4, 12], lengths)


@case("join.response.leader-sees-all-members", 1)
async def leader_response_has_all_static_members(story: StoryContext) -> None:
    """The leader's response lists static members that did not rejoin, with metadata and group instance ids."""
    anna, ben = await stable_group(story, static=True, rebalance_timeout_ms=2000)
    carla = ConformanceMember(story, "carla", instance_id="i-carla", rebalance_timeout_ms=2000)
    carla_join = await carla.start_rebalance()
    response = await ben.join_group()
    expect(await carla_join, error=E.NONE, generation_id=3)
    leader = response if response.leader == ben.id else await carla_join
    expect_true(leader.leader in (ben.id, carla.id), "the leader should be a member that rejoined")
    listed = {member.member_id: (member.group_instance_id, member.metadata) for member in leader.members}
    expected = {member.id: (member.instance_id, member.protocols["range"]) for member in (anna, ben, carla)}
    expect_equal("instance ids and metadata", expected, listed)
    await story.expect_state("CompletingRebalance", members=3)


@case("join.response.protocol-type-v7", 2)
async def join_response_has_protocol_type(story: StoryContext) -> None:
    """Since v7 the response has the protocol type; every version has the protocol name."""
    for version in range(10):
        story.use_group(f"v{version}")
        anna = ConformanceMember(story, "anna")
        if version >= 4:
            await anna.obtain_member_id()
        response = await anna.join_group(version=version)
        expect(response, error=E.NONE, protocol_name="range", protocol_type="consumer" if version >= 7 else None)


@case("join.sole-member-disjoint-protocols-rejected", 2)
async def single_member_changes_assignors(story: StoryContext) -> None:
    """Even a single member cannot rejoin with assignors of which it supported none before."""
    anna = await stable_group_of_one(story, protocols={"range": b"r"})
    response = await anna.join_group(protocols={"roundrobin": b"rr"})
    expect(response, error=E.INCONSISTENT_GROUP_PROTOCOL, member_id=anna.id)
    await story.expect_state("Stable", members=1)


@case("join.after-empty.protocol-type-can-change", 2)
async def empty_group_changes_protocol_type(story: StoryContext) -> None:
    """After all members have left, the next member may bring another protocol type."""
    await empty_group(story)
    worker = ConformanceMember(story, "worker", protocol_type="connect", protocols={"sessioned": b"s"})
    expect(await worker.join_group(version=3), error=E.NONE, generation_id=3, protocol_name="sessioned")
    expect(await story.describe(), protocol_type="connect")
