"""Stories about failover: what a coordinator has of a group after it has loaded the group from the log."""

from regroup.conformance.harness.broker_under_test import BAR_0, FOO_0
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import (
    expect,
    expect_equal,
    expect_every_partition,
    expect_one_of,
    expect_partition_errors,
)
from regroup.conformance.harness.groups import (
    completing_group,
    empty_group,
    pending_join_member,
    preparing_group,
    stable_group,
    stable_group_of_one,
)
from regroup.conformance.harness.member import ConformanceMember, assignment_of, described_assignments
from regroup.conformance.harness.offsets import admin_commit, delete_offsets, expect_committed
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DeleteGroupsRequest, DeleteGroupsResponse

LONG_MS = 120_000
"""A session timeout in milliseconds that does not expire during the restart."""


@case("recovery.stable-group", 1, needs_restart=True)
async def stable_group_after_failover(story: StoryContext) -> None:
    """After a failover a stable group has the same generation, members and assignments."""
    anna, ben = await stable_group(story, session_timeout_ms=LONG_MS)
    await story.restart_coordinator()
    group = await story.describe()
    expect(group, group_state="Stable", protocol_type="consumer", protocol_data="range")
    expected = {member.id: assignment_of(member) for member in (anna, ben)}
    expect_equal("assignments", expected, described_assignments(group))
    await story.expect_all((member.heartbeat() for member in (anna, ben)), error=E.NONE)


@case("recovery.other-assignors-forgotten", 2, needs_restart=True)
async def only_selected_assignor_is_stored(story: StoryContext) -> None:
    """Of a member's assignors only the selected one is stored: after a failover its old list counts as a change."""
    _, ben = await stable_group(story, session_timeout_ms=LONG_MS)
    await story.restart_coordinator()
    await ben.join_group().expect_pending()
    await story.expect_state("PreparingRebalance", members=2)


@case("leader.restored-from-log", 2, needs_restart=True)
async def leader_after_failover(story: StoryContext) -> None:
    """After a failover the leader is the same: its JoinGroup starts a rebalance, a follower's does not."""
    anna, ben = await stable_group(story, session_timeout_ms=LONG_MS, protocols={"range": b"r"})
    await story.restart_coordinator()
    expect(await ben.join_group(), error=E.NONE, generation_id=2, leader=anna.id)
    await anna.join_group().expect_pending()
    await story.expect_state("PreparingRebalance", members=2)


@case("recovery.empty-group", 1, needs_restart=True)
async def empty_group_after_failover(story: StoryContext) -> None:
    """After a failover an Empty group has the same generation and protocol type."""
    await empty_group(story)
    await admin_commit(story, {FOO_0: 7})
    await story.restart_coordinator()
    expect(await story.describe(), group_state="Empty", protocol_type="consumer", members=[])
    await expect_committed(story, FOO_0, 7)
    expect(await ConformanceMember(story, "ben").join(), error=E.NONE, generation_id=3)


@case("recovery.rebalance-in-progress-lost", 1, needs_restart=True)
async def failover_during_rebalance(story: StoryContext) -> None:
    """A failover drops a rebalance in progress: the group is Stable in the last stored generation."""
    anna, ben = await stable_group(story, session_timeout_ms=LONG_MS, protocols={"range": b"r"})
    carla = ConformanceMember(story, "carla", session_timeout_ms=LONG_MS, protocols={"range": b"r"})
    await carla.start_rebalance()
    await story.restart_coordinator()
    await story.expect_state("Stable", members=2)
    expect(await carla.join_group(), error=E.UNKNOWN_MEMBER_ID)
    expect(await ben.join_group(), error=E.NONE, generation_id=2, leader=anna.id)
    await anna.join_group().expect_pending()
    await story.expect_state("PreparingRebalance", members=2)


@case("recovery.completing-lost", 1, needs_restart=True)
async def failover_before_sync(story: StoryContext) -> None:
    """A failover drops a generation that has no assignments yet; its generation id is used again."""
    anna, ben = await completing_group(story, session_timeout_ms=LONG_MS)
    await story.restart_coordinator()
    await story.expect_state("Stable", members=1)
    expect(await anna.sync_group({anna.id: b"A"}), error=E.ILLEGAL_GENERATION)
    expect(await ben.sync_group(), error=E.UNKNOWN_MEMBER_ID)
    expect(await anna.heartbeat(generation_id=1), error=E.NONE)
    expect(await anna.join_group(), error=E.NONE, generation_id=2)


@case("recovery.group-tombstone", 1, needs_restart=True)
async def deleted_group_after_failover(story: StoryContext) -> None:
    """A deleted group stays deleted after a failover."""
    await empty_group(story)
    await admin_commit(story, {FOO_0: 7})
    response = await story.send(DeleteGroupsRequest(groups_names=[story.group_id]), DeleteGroupsResponse)
    expect(response.results[0], error=E.NONE)
    await story.restart_coordinator()
    await story.expect_state("Dead")
    await expect_committed(story, FOO_0, -1)


@case("recovery.offsets-without-group", 1, needs_restart=True)
async def group_of_offsets_after_failover(story: StoryContext) -> None:
    """After a failover a group that has only committed offsets is Empty and has no protocol type."""
    await admin_commit(story, {FOO_0: 7})
    await story.restart_coordinator()
    expect(await story.describe(), group_state="Empty", protocol_type="", members=[])
    await expect_committed(story, FOO_0, 7)
    expect(await ConformanceMember(story, "anna").join(), error=E.NONE, generation_id=1)


@case("recovery.static-members", 2, needs_restart=True)
async def static_members_after_failover(story: StoryContext) -> None:
    """After a failover static members have the same member ids; a restarted member replaces its old id."""
    anna, ben = await stable_group(story, static=True, session_timeout_ms=LONG_MS)
    await story.restart_coordinator()
    expect(await anna.heartbeat(), error=E.NONE)
    replacement = ben.replacement(protocols={"range": ben.protocols["range"]})
    expect(await replacement.join_group(), error=E.NONE, generation_id=2, leader=anna.id)
    expect(await replacement.sync_group(), error=E.NONE, assignment=assignment_of(ben))
    expect(await ben.heartbeat(), error=E.FENCED_INSTANCE_ID)


@case("recovery.unload-answers-parked-requests", 1, needs_restart=True)
async def pending_requests_at_failover(story: StoryContext) -> None:
    """At a failover held JoinGroups and SyncGroups get NOT_COORDINATOR, or their connection is closed."""
    _, _, _, carla_join = await preparing_group(story)
    story.use_group("sync")
    _, ben = await completing_group(story)
    ben_sync = await ben.sync_group().expect_pending()
    await story.restart_coordinator(close_connections=False)
    for request in (carla_join, ben_sync):
        if (response := await request.response_or_none()) is not None:
            expect_one_of("error code", (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE), response.error_code)


@case("recovery.subscribed-topics-recomputed", 2, needs_restart=True)
async def subscriptions_after_failover(story: StoryContext) -> None:
    """After a failover the subscribed topics of the group are known."""
    await admin_commit(story, {FOO_0: 1, BAR_0: 2})
    await stable_group_of_one(story, session_timeout_ms=LONG_MS)
    await story.restart_coordinator()
    response = await delete_offsets(story, FOO_0, BAR_0)
    expect_partition_errors(response, {FOO_0: E.NONE, BAR_0: E.GROUP_SUBSCRIBED_TO_TOPIC})


@case("recovery.pending-ids-forgotten", 2, needs_restart=True)
async def pending_join_members_after_failover(story: StoryContext) -> None:
    """A failover drops pending join members."""
    anna = await stable_group_of_one(story, session_timeout_ms=LONG_MS)
    ben = await pending_join_member(story, "ben", session_timeout_ms=LONG_MS)
    await story.restart_coordinator()
    expect(await ben.join_group(), error=E.UNKNOWN_MEMBER_ID)
    expect_every_partition(await anna.commit_offsets({FOO_0: 1}), E.NONE)
