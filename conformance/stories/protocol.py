"""Stories about the selection of the assignor, and about the metadata of members."""

from regroup.conformance.harness.broker_under_test import FOO_0
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import (
    expect,
    expect_equal,
    expect_member_errors,
    expect_one_of,
    expect_partition_errors,
)
from regroup.conformance.harness.groups import add_member, empty_group, stable_group, stable_group_of_one
from regroup.conformance.harness.member import AssignorMetadata, ConformanceMember
from regroup.conformance.harness.offsets import admin_commit, delete_offsets
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


async def selected_assignor(story: StoryContext, *assignors: AssignorMetadata) -> str | None:
    """The assignor that a group selects whose two members support these."""
    anna = await stable_group_of_one(story, protocols=assignors[0])
    ben_join = await ConformanceMember(story, "ben", protocols=assignors[1]).start_rebalance()
    expect(await anna.join_group(), error=E.NONE, generation_id=2)
    return (await ben_join).protocol_name


@case("protocol.only-common-candidates", 1)
async def select_common_assignor(story: StoryContext) -> None:
    """Only an assignor that all members support can be selected."""
    selected = await selected_assignor(story, {"range": b"", "roundrobin": b""}, {"roundrobin": b"", "foo": b""})
    expect_equal("assignor", "roundrobin", selected)


@case("protocol.tie-unspecified", 2)
async def select_assignor_in_tie(story: StoryContext) -> None:
    """When the votes are tied, either assignor may be selected."""
    selected = await selected_assignor(story, {"range": b"", "roundrobin": b""}, {"roundrobin": b"", "range": b""})
    expect_one_of("assignor", ("range", "roundrobin"), selected)


@case("protocol.joiner-may-narrow", 2)
async def new_member_narrows_assignors(story: StoryContext) -> None:
    """A new member that supports only one of the common assignors is accepted, and the group selects that one."""
    anna, ben = await stable_group(story)
    carla = ConformanceMember(story, "carla", protocols={"roundrobin": b"rr"})
    carla_join = await carla.join_group(version=3).expect_pending()
    joins = (anna.join_group(), ben.join_group(), carla_join)
    await story.expect_all(joins, error=E.NONE, generation_id=3, protocol_name="roundrobin")


@case("protocol.leaver-may-widen", 3)
async def leaving_member_widens_assignors(story: StoryContext) -> None:
    """When the member leaves that supported one assignor only, all assignors of the others are candidates again."""
    anna = await stable_group_of_one(story, protocols={"range": b"", "sticky": b""})
    ben = ConformanceMember(story, "ben", protocols={"range": b""})
    await add_member(anna, ben)
    carla, dora = (ConformanceMember(story, name, protocols={"sticky": b""}) for name in ("carla", "dora"))
    expect(await carla.join_group(), error=E.INCONSISTENT_GROUP_PROTOCOL)
    expect_member_errors(await ben.leave_group(), E.NONE)
    expect(await anna.join_group(), error=E.NONE, protocol_name="range")
    expect(await dora.join_group(), error=E.MEMBER_ID_REQUIRED)


@case("protocol.empty-group-accepts-anything", 2)
async def empty_group_accepts_any_assignor(story: StoryContext) -> None:
    """An Empty group accepts a member with any assignor."""
    await empty_group(story)
    response = await ConformanceMember(story, "ben", protocols={"anything": b""}).join_group(version=3)
    expect(response, error=E.NONE, generation_id=3, protocol_name="anything")


@case("protocol.unparsable-metadata", 2)
async def invalid_subscription_is_accepted(story: StoryContext) -> None:
    """Metadata that is not a valid subscription is accepted; the group then counts as subscribed to every topic."""
    await admin_commit(story, {FOO_0: 1})
    await stable_group_of_one(story, protocols={"range": b"\xff"})
    expect_partition_errors(await delete_offsets(story, FOO_0), {FOO_0: E.GROUP_SUBSCRIBED_TO_TOPIC})


@case("protocol.non-consumer-type-opaque", 3)
async def metadata_of_other_types_is_opaque(story: StoryContext) -> None:
    """The metadata of members of another protocol type is never parsed."""
    anna = await stable_group_of_one(story, protocol_type="connect", protocols={"range": b"\xff"})
    await story.expect_state("Stable", members=1)
    expect(await delete_offsets(story, FOO_0), error=E.NON_EMPTY_GROUP)
    expect(await anna.heartbeat(), error=E.NONE)
