"""Stories about member epochs: which ones a heartbeat may carry, and what raises the epoch of the group."""

from regroup.conformance.harness.broker_under_test import BAR_TOPIC, SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import ALL, LOW, expect_answer
from regroup.conformance.harness.consumer_groups import ORDINARY, group_of_one, settled, six
from regroup.conformance.harness.expect import expect
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E

ALL_AND_BAR = {**ALL, BAR_TOPIC: [0, 1, 2]}


@case("cg.epoch.smaller", 1, required_settings=ORDINARY)
async def epoch_before_the_previous_one(story: StoryContext) -> None:
    """An epoch before the previous one is fenced, whatever the member owns."""
    group = await settled(story)
    expect_answer(await group.beat("m1", group.epoch - 2, owned=LOW), error=E.FENCED_MEMBER_EPOCH)


@case("cg.epoch.previous-with-subset", 1, required_settings=ORDINARY)
async def previous_epoch_with_owned(story: StoryContext) -> None:
    """The previous epoch is accepted, since the answer may be lost, if the member reports what it owns, and no more."""
    group = await settled(story)
    expect_answer(await group.beat("m1", group.epoch - 1, owned=LOW), epoch=group.epoch)


@case("cg.epoch.previous-with-null-owned", 1, required_settings=ORDINARY)
async def previous_epoch_without_owned(story: StoryContext) -> None:
    """The previous epoch is fenced if the member does not report what it owns."""
    group = await settled(story)
    expect_answer(await group.beat("m1", group.epoch - 1), error=E.FENCED_MEMBER_EPOCH)


@case("cg.epoch.previous-with-more", 1, required_settings=ORDINARY)
async def previous_epoch_with_more(story: StoryContext) -> None:
    """The previous epoch is fenced if the member reports more than is assigned to it."""
    group = await settled(story)
    expect_answer(await group.beat("m1", group.epoch - 1, owned=ALL), error=E.FENCED_MEMBER_EPOCH)


@case("cg.epoch.previous-is-lost-by-a-second-step", 3, required_settings=ORDINARY)
async def previous_epoch_after_second_step(story: StoryContext) -> None:
    """Being asked to release partitions makes the present epoch the previous one: the epoch before it is fenced."""
    group = await group_of_one(story)
    topics = (SIX_TOPIC, BAR_TOPIC)
    answer = await group.beat("m1", group.epoch, names=topics)
    expect_answer(answer, epoch=group.epoch + 1, assignment=ALL_AND_BAR)
    expect_answer(await group.join("m2", *topics))
    expect_answer(await group.beat("m1", group.epoch + 1), epoch=group.epoch + 1)
    expect_answer(await group.beat("m1", group.epoch, owned=six(0)), error=E.FENCED_MEMBER_EPOCH)


@case("cg.epoch.current-epoch-needs-no-owned-list", 1, required_settings=ORDINARY)
async def plain_heartbeat(story: StoryContext) -> None:
    """A heartbeat with the current epoch needs nothing else, and changes nothing."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch, assignment=None)


@case("cg.epoch.owned-is-not-checked-at-current-epoch", 3, required_settings=ORDINARY)
async def foreign_partitions_at_current_epoch(story: StoryContext) -> None:
    """With the current epoch, partitions that the member was never given and unknown topic ids are ignored."""
    group = await group_of_one(story)
    owned = {**ALL, BAR_TOPIC: [0], "a topic that does not exist": [0]}
    expect_answer(await group.beat("m1", group.epoch, owned=owned), epoch=group.epoch)


@case("cg.epoch.bump-by-subscription", 1, required_settings=ORDINARY)
async def changed_subscription(story: StoryContext) -> None:
    """A changed subscription raises the group epoch, and the same answer carries the new assignment."""
    group = await group_of_one(story)
    answer = await group.beat("m1", group.epoch, names=(SIX_TOPIC, BAR_TOPIC))
    expect_answer(answer, epoch=group.epoch + 1, assignment=ALL_AND_BAR)


@case("cg.epoch.no-bump-by-order-of-names", 2, required_settings=ORDINARY)
async def reordered_subscription(story: StoryContext) -> None:
    """The order of the topics in a subscription does not matter."""
    group = await group_of_one(story)
    await group.beat("m1", group.epoch, names=(SIX_TOPIC, BAR_TOPIC))
    expect_answer(await group.beat("m1", group.epoch + 1, names=(BAR_TOPIC, SIX_TOPIC)), epoch=group.epoch + 1)


@case("cg.epoch.no-bump-by-rebalance-timeout", 2, required_settings=ORDINARY)
async def changed_rebalance_timeout(story: StoryContext) -> None:
    """Another rebalance timeout does not raise the group epoch."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch, rebalance_timeout_ms=7_777), epoch=group.epoch)


@case("cg.epoch.no-bump-by-rack", 2, required_settings=ORDINARY)
async def changed_rack(story: StoryContext) -> None:
    """Another rack does not raise the group epoch, but is described."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch, rack_id="r9"), epoch=group.epoch)
    expect(await group.described_member("m1"), rack_id="r9")


@case("cg.epoch.no-bump-when-vote-is-unchanged", 2, required_settings=ORDINARY)
async def vote_for_the_default(story: StoryContext) -> None:
    """Naming the assignor that is used anyway does not raise the group epoch."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch, assignor="uniform"), epoch=group.epoch)


@case("cg.epoch.null-assignor-keeps-the-vote", 2, required_settings=ORDINARY)
async def heartbeat_after_vote(story: StoryContext) -> None:
    """A heartbeat without an assignor keeps the member's vote; only another vote takes it back."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch, assignor="range"), epoch=group.epoch + 1)
    expect_answer(await group.beat("m1", group.epoch + 1), epoch=group.epoch + 1, assignment=None)
    expect(await group.describe(), assignor_name="range")


@case("cg.epoch.leave-bumps", 1, required_settings=ORDINARY)
async def leave_raises_group_epoch(story: StoryContext) -> None:
    """A leave raises the group epoch; the target is computed by the next heartbeat of a member that stays."""
    group = await settled(story)
    await group.leave("m2")
    await group.expect_group("Assigning", group.epoch + 1, group.epoch)
    await group.expect_member("m1", group.epoch, LOW)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch + 1)


@case("cg.epoch.member-follows-target-not-group", 1, required_settings=ORDINARY)
async def member_reaches_new_target(story: StoryContext) -> None:
    """A member takes the epoch of the target: the group is Stable once its heartbeat has computed it."""
    group = await settled(story)
    await group.leave("m2")
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch + 1, assignment=ALL)
    await group.expect_group("Stable", group.epoch + 1)
