"""Stories about joining with epoch 0, leaving with -1, and the states that a group shows."""

from regroup.conformance.harness.broker_under_test import ABSENT_TOPIC, FOO_0
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import ALL, HIGH, LOW, NOTHING, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import (
    ORDINARY,
    add_first,
    away,
    group_of_one,
    revoking,
    settled,
    static_pair,
    two_joined,
)
from regroup.conformance.harness.expect import expect
from regroup.conformance.harness.groups import stable_group_of_one
from regroup.conformance.harness.offsets import admin_commit, expect_committed
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DeleteGroupsRequest, DeleteGroupsResponse


@case("cg.join.first-member", 1, required_settings=ORDINARY)
async def first_member_joins(story: StoryContext) -> None:
    """The first member gets everything in the answer to its join, at epoch 2: a new group has epoch 1."""
    group = await ConsumerProtocolGroup.begin(story)
    answer = await group.join("m1")
    expect_answer(answer, epoch=2, assignment=ALL)
    expect(answer.response, member_id="m1")
    await group.expect_group("Stable", 2)


@case("cg.join.unknown-member-positive-epoch", 1, required_settings=ORDINARY)
async def stranger_with_epoch(story: StoryContext) -> None:
    """An unknown member with a positive epoch is refused."""
    group = await group_of_one(story)
    expect_answer(await group.beat("mx", 1), error=E.UNKNOWN_MEMBER_ID)


@case("cg.join.again-with-epoch-0-stable", 1, required_settings=ORDINARY)
async def member_joins_again(story: StoryContext) -> None:
    """A member may start again with epoch 0: it keeps its epoch and its assignment, and no epoch is spent."""
    group = await group_of_one(story)
    expect_answer(await group.join("m1"), epoch=group.epoch, assignment=ALL)
    await group.expect_group("Stable", group.epoch)


@case("cg.join.again-with-epoch-0-unrevoked", 1, required_settings=ORDINARY)
async def member_that_revokes_joins_again(story: StoryContext) -> None:
    """A member that joins again while it has to release partitions has released them: a join owns nothing."""
    group = await revoking(story)
    expect_answer(await group.join("m1"), epoch=group.epoch, assignment=LOW)
    expect_answer(await group.beat("m2", group.epoch), epoch=group.epoch, assignment=HIGH)


@case("cg.join.again-after-leaving", 2, required_settings=ORDINARY)
async def member_returns_to_empty_group(story: StoryContext) -> None:
    """A group keeps its epoch while it is empty: the next member gets the one after it."""
    group = await group_of_one(story)
    await group.leave("m1")
    await group.expect_group("Empty", group.epoch + 1)
    expect_answer(await group.join("m1"), epoch=group.epoch + 2, assignment=ALL)


@case("cg.join.after-group-was-deleted", 2, required_settings=ORDINARY)
async def member_returns_after_deletion(story: StoryContext) -> None:
    """A group that was deleted begins with its first epoch again."""
    group = await group_of_one(story)
    await group.leave("m1")
    request = DeleteGroupsRequest(groups_names=[story.group_id])
    expect((await story.send(request, DeleteGroupsResponse)).results[0], error=E.NONE)
    expect_answer(await group.join("m1"), epoch=group.epoch, assignment=ALL)


@case("cg.join.unknown-topic", 1, required_settings=ORDINARY)
async def member_subscribes_to_absent_topic(story: StoryContext) -> None:
    """A member may subscribe to a topic that does not exist; the changed subscription alone spends an epoch."""
    group = await ConsumerProtocolGroup.begin(story)
    expect_answer(await group.join("m", ABSENT_TOPIC), epoch=2, assignment=NOTHING)
    await group.expect_group("Stable", 2)


@case("cg.join.empty-classic-group", 1, required_settings=ORDINARY)
async def simple_group_becomes_consumer_group(story: StoryContext) -> None:
    """A classic group that has only offsets becomes a consumer group; the offsets stay."""
    await admin_commit(story, {FOO_0: 7})
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group)
    await group.expect_group("Stable", group.epoch)
    await expect_committed(story, FOO_0, 7)


@case("cg.join.dynamic-member-does-not-become-static", 3, required_settings=ORDINARY)
async def heartbeat_with_new_instance_id(story: StoryContext) -> None:
    """An ordinary heartbeat with an instance id is looked up by it: a dynamic member is not found."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch, instance_id="i1"), error=E.UNKNOWN_MEMBER_ID)


@case("cg.join.dynamic-member-becomes-static-by-joining", 3, required_settings=ORDINARY)
async def dynamic_member_becomes_static(story: StoryContext) -> None:
    """A dynamic member that joins again with a new instance id becomes static; no epoch is spent."""
    group = await group_of_one(story)
    expect_answer(await group.join("m1", instance_id="i1"), epoch=group.epoch, assignment=ALL)
    expect(await group.described_member("m1"), instance_id="i1")
    await group.expect_group("Stable", group.epoch)


@case("cg.leave.dynamic", 1, required_settings=ORDINARY)
async def member_leaves(story: StoryContext) -> None:
    """The answer to a leave has the member id, epoch -1, interval 0 and no assignment."""
    group = await settled(story)
    answer = await group.beat("m2", -1)
    expect_answer(answer, epoch=-1, assignment=None)
    expect(answer.response, member_id="m2", heartbeat_interval_ms=0)
    await group.expect_members("m1")


@case("cg.leave.unknown-member", 1, required_settings=ORDINARY)
async def stranger_leaves(story: StoryContext) -> None:
    """An unknown member cannot leave."""
    group = await group_of_one(story)
    expect_answer(await group.beat("mx", -1), error=E.UNKNOWN_MEMBER_ID)


@case("cg.leave.classic-group", 2, required_settings=ORDINARY)
async def leave_classic_group(story: StoryContext) -> None:
    """A ConsumerGroupHeartbeat with epoch -1 does not find a classic group."""
    await stable_group_of_one(story)
    group = await ConsumerProtocolGroup.begin(story)
    expect_answer(await group.beat("m1", -1), error=E.GROUP_ID_NOT_FOUND)
    await story.expect_state("Stable", members=1)


@case("cg.leave.last-member", 1, required_settings=ORDINARY)
async def last_member_leaves(story: StoryContext) -> None:
    """When the last member leaves, group and offsets stay; the assignment epoch follows the group epoch."""
    group = await group_of_one(story)
    await group.commit("m1", group.epoch, FOO_0, offset=7)
    await group.leave("m1")
    await group.expect_group("Empty", group.epoch + 1)
    await expect_committed(story, FOO_0, 7)


@case("cg.leave.frees-partitions-at-once", 1, required_settings=ORDINARY)
async def partitions_of_leaving_member(story: StoryContext) -> None:
    """A member that leaves has released its partitions: the next heartbeat of another member gets them."""
    group = await settled(story)
    await group.leave("m2")
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch + 1, assignment=ALL)


@case("cg.leave.during-revocation", 2, required_settings=ORDINARY)
async def member_that_revokes_leaves(story: StoryContext) -> None:
    """A member that leaves while it has to release partitions frees all that it owned."""
    group = await revoking(story)
    await group.leave("m1")
    expect_answer(await group.beat("m2", group.epoch), epoch=group.epoch + 1, assignment=ALL)


@case("cg.leave.static-member-without-instance-id", 3, required_settings=ORDINARY)
async def static_member_leaves_by_member_id(story: StoryContext) -> None:
    """A static member that sends -1 without its instance id is found by its member id and removed for good."""
    group = await static_pair(story)
    await group.leave("m2")
    await group.expect_members("m1")


@case("cg.leave.dynamic-with-minus-two", 3, required_settings=ORDINARY)
async def dynamic_member_leaves_for_a_while(story: StoryContext) -> None:
    """A dynamic member cannot leave for a while: its instance id is unknown."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", -2, instance_id="i1"), error=E.UNKNOWN_MEMBER_ID)


@case("cg.leave.answer-echoes-request", 3, required_settings=ORDINARY)
async def answer_to_leave_of_only_member(story: StoryContext) -> None:
    """The answer to the last member's leave has its member id and epoch -1, too."""
    group = await group_of_one(story)
    answer = await group.beat("m1", -1)
    expect(answer.response, error=E.NONE, member_id="m1", member_epoch=-1)


@case("cg.state.assigning", 1, required_settings=ORDINARY)
async def group_is_assigning(story: StoryContext) -> None:
    """After a leave the group is Assigning until a heartbeat computes the new target."""
    group = await settled(story)
    await group.leave("m2")
    await group.expect_group("Assigning", group.epoch + 1, group.epoch)


@case("cg.state.reconciling", 1, required_settings=ORDINARY)
async def group_is_reconciling(story: StoryContext) -> None:
    """A group is Reconciling while a member has not reached the assignment epoch."""
    group = await two_joined(story)
    await group.expect_group("Reconciling", group.epoch)


@case("cg.state.stable", 1, required_settings=ORDINARY)
async def group_is_stable(story: StoryContext) -> None:
    """A group is Stable when all members own their targets at the assignment epoch."""
    group = await settled(story)
    await group.expect_group("Stable", group.epoch)


@case("cg.state.reconciling-while-a-static-member-is-away", 2, required_settings=ORDINARY)
async def group_with_member_away(story: StoryContext) -> None:
    """While a static member is away with epoch -2, the group is Reconciling."""
    group = await away(story)
    await group.expect_group("Reconciling", group.epoch)
