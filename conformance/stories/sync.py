"""Stories about SyncGroup: the leader sends the assignments, and every member gets its own."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect
from regroup.conformance.harness.groups import (
    completing_group,
    completing_group_of_one,
    empty_group,
    preparing_group,
    stable_group,
    stable_group_of_one,
)
from regroup.conformance.harness.member import ConformanceMember, assignment_of, leave_group
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


@case("sync.empty-group", 1)
async def sync_with_empty_group(story: StoryContext) -> None:
    """SyncGroup of a member that has left the group is refused."""
    anna = await empty_group(story)
    expect(await anna.sync_group(generation_id=2), error=E.UNKNOWN_MEMBER_ID)


@case("sync.unknown-member", 1)
async def sync_of_unknown_member(story: StoryContext) -> None:
    """SyncGroup with an unknown member id is refused."""
    anna = await stable_group_of_one(story)
    expect(await anna.sync_group(member_id="other"), error=E.UNKNOWN_MEMBER_ID)
    await story.expect_state("Stable")


@case("sync.illegal-generation", 1)
async def sync_with_illegal_generation(story: StoryContext) -> None:
    """SyncGroup with another generation id is refused."""
    anna = await stable_group_of_one(story)
    expect(await anna.sync_group(generation_id=2), error=E.ILLEGAL_GENERATION)
    await story.expect_state("Stable")


@case("sync.protocol-type-mismatch", 1)
async def sync_with_other_protocol_type(story: StoryContext) -> None:
    """SyncGroup with another protocol type is refused and does not complete the rebalance."""
    anna = await completing_group_of_one(story)
    response = await anna.sync_group({anna.id: b"assignment"}, protocol_type="other")
    expect(response, error=E.INCONSISTENT_GROUP_PROTOCOL, protocol_type=None, protocol_name=None, assignment=b"")
    await story.expect_state("CompletingRebalance")


@case("sync.protocol-name-mismatch", 1)
async def sync_with_other_protocol_name(story: StoryContext) -> None:
    """SyncGroup with another protocol name than the selected one is refused."""
    anna = await completing_group_of_one(story)
    response = await anna.sync_group({anna.id: b"assignment"}, protocol_name="other")
    expect(response, error=E.INCONSISTENT_GROUP_PROTOCOL, protocol_type=None, protocol_name=None, assignment=b"")
    await story.expect_state("CompletingRebalance")


@case("sync.protocol-fields-absent-before-v5", 1)
async def sync_without_protocol_before_v5(story: StoryContext) -> None:
    """Up to v4 SyncGroup has no protocol type and name, and none are checked."""
    for version in range(5):
        story.use_group(f"v{version}")
        anna = await completing_group_of_one(story)
        expect(await anna.sync_group({anna.id: b"assignment"}, version=version), error=E.NONE, assignment=b"assignment")
        await story.expect_state("Stable")


@case("sync.response-protocol-fields-v5", 2)
async def sync_response_has_protocol(story: StoryContext) -> None:
    """Since v5 the response has protocol type and protocol name."""
    anna = await completing_group_of_one(story)
    response = await anna.sync_group({anna.id: b"assignment"}, version=5)
    expect(response, error=E.NONE, protocol_type="consumer", protocol_name="range", assignment=b"assignment")


@case("sync.preparing", 1)
async def sync_while_preparing(story: StoryContext) -> None:
    """While the next generation is being prepared, SyncGroup gets REBALANCE_IN_PROGRESS."""
    anna, ben, _, _ = await preparing_group(story)
    await story.expect_all(
        (member.sync_group() for member in (anna, ben)), error=E.REBALANCE_IN_PROGRESS, assignment=b""
    )
    await story.expect_state("PreparingRebalance")


@case("sync.completing.leader-commits", 1)
async def leader_assigns(story: StoryContext) -> None:
    """Followers wait for the leader's SyncGroup, which gives every member its assignment."""
    anna, ben = await completing_group(story)
    ben_sync = await ben.sync_group().expect_pending()
    expect(await anna.sync_group({anna.id: b"A1", ben.id: b"A2"}), error=E.NONE, assignment=b"A1")
    expect(await ben_sync, error=E.NONE, assignment=b"A2")
    await story.expect_state("Stable", members=2)


@case("sync.leader-omits-members", 1)
async def leader_omits_member(story: StoryContext) -> None:
    """A member that the leader omits gets an empty assignment."""
    anna, ben = await completing_group(story)
    expect(await anna.sync_group({anna.id: b"A1"}), error=E.NONE, assignment=b"A1")
    expect(await ben.sync_group(), error=E.NONE, assignment=b"")
    await story.expect_state("Stable")


@case("sync.leader-adds-unknown-members", 3)
async def leader_assigns_to_unknown_member(story: StoryContext) -> None:
    """An assignment for a member id that is not in the group is dropped."""
    anna, ben = await completing_group(story)
    expect(await anna.sync_group({anna.id: b"A1", ben.id: b"A2", "ghost": b"X"}), error=E.NONE, assignment=b"A1")
    expect(await ben.sync_group(), error=E.NONE, assignment=b"A2")
    await story.expect_state("Stable", members=2)


@case("sync.stable.leader-again", 2)
async def leader_assigns_again(story: StoryContext) -> None:
    """In a stable group the leader cannot change assignments; its SyncGroup gets its current one."""
    anna, ben = await stable_group(story)
    expect(await anna.sync_group({anna.id: b"NEW1", ben.id: b"NEW2"}), error=E.NONE, assignment=assignment_of(anna))
    expect(await ben.sync_group(), error=E.NONE, assignment=assignment_of(ben))


@case("sync.duplicate-follower-request", 3)
async def follower_repeats_sync(story: StoryContext) -> None:
    """When a follower repeats its SyncGroup, only the second request is answered."""
    anna, ben = await completing_group(story)
    first_sync = await ben.sync_group().expect_pending()
    second_sync = await ben.sync_group().expect_pending()
    await anna.sync_group({anna.id: b"A1", ben.id: b"A2"})
    expect(await second_sync, error=E.NONE, assignment=b"A2")
    await first_sync.expect_pending()


@case("sync.rebalance-before-commit", 2)
async def join_right_behind_leaders_sync(story: StoryContext) -> None:
    """A JoinGroup right behind the leader's SyncGroup starts a rebalance, whether or not assignments were stored."""
    anna, ben = await completing_group(story)
    anna_sync = anna.sync_group({anna.id: b"A1", ben.id: b"A2"})
    carla_join = ConformanceMember(story, "carla").join_group(version=3)
    response = await anna_sync
    expect(response, assignment=b"" if response.error_code == E.REBALANCE_IN_PROGRESS else b"A1")
    await carla_join.expect_pending()
    await ben.expect_rebalance(members=3)


@case("sync.fenced-static", 1)
async def replaced_static_member_syncs(story: StoryContext) -> None:
    """SyncGroup of a static member that was replaced is fenced."""
    _, ben = await stable_group(story, static=True)
    expect(await ben.replacement().join_group(), error=E.NONE)
    expect(await ben.sync_group(), error=E.FENCED_INSTANCE_ID)


@case("sync.replaced-static-without-instance-id", 2)
async def replaced_static_member_syncs_without_instance_id(story: StoryContext) -> None:
    """A replaced static member that sends SyncGroup without its group instance id is unknown."""
    anna, _ = await stable_group(story, static=True)
    expect(await anna.replacement().join_group(), error=E.NONE)
    anna.instance_id = None
    expect(await anna.sync_group(), error=E.UNKNOWN_MEMBER_ID)


@case("sync.rejoin-aborts-parked-syncs", 1)
async def rebalance_aborts_pending_syncs(story: StoryContext) -> None:
    """When a rebalance starts, held SyncGroups get REBALANCE_IN_PROGRESS."""
    anna, ben, carla = await completing_group(story, size=3)
    ben_sync = await ben.sync_group().expect_pending()
    await leave_group(story, carla)
    expect(await ben_sync, error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    await anna.expect_rebalance(members=2)
