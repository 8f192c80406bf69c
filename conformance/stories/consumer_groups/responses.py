"""Stories about what an answer carries, and about the interval between two targets (KIP-1263)."""

from regroup.conformance.harness.broker_under_test import BAR_TOPIC, SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import (
    ALL,
    LOW,
    NOTHING,
    REBALANCE_TIMEOUT_MS,
    ConsumerProtocolGroup,
    HeartbeatFields,
    expect_answer,
)
from regroup.conformance.harness.consumer_groups import ORDINARY, add_first, group_of_one, revoking, six, two_joined
from regroup.conformance.harness.expect import expect
from regroup.conformance.harness.story import StoryContext

FULL: HeartbeatFields = {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "names": (SIX_TOPIC,)}
"""The fields that make a heartbeat full, together with the owned partitions."""

INTERVAL_MS, LONG_INTERVAL_MS = 1_000, 15_000


async def begin_with_interval(story: StoryContext, interval_ms: int = LONG_INTERVAL_MS) -> ConsumerProtocolGroup:
    """Make a group with an assignment interval and its first member."""
    group = await ConsumerProtocolGroup.begin(story, assignment_interval_ms=interval_ms)
    await add_first(group)
    return group


@case("cg.resp.interval", 1, required_settings=ORDINARY)
async def heartbeat_interval_of_broker(story: StoryContext) -> None:
    """Every answer without an error has the heartbeat interval; the answer to a leave has 0."""
    group = await group_of_one(story)
    interval_ms = story.target.settings.get("group.consumer.heartbeat.interval.ms", "5000")
    expect((await group.beat("m1", group.epoch)).response, heartbeat_interval_ms=int(interval_ms))
    expect((await group.beat("m1", -1)).response, heartbeat_interval_ms=0)


@case("cg.resp.assignment-at-join", 1, required_settings=ORDINARY)
async def assignment_at_join(story: StoryContext) -> None:
    """The answer to a join always has an assignment, even if it is empty or known already."""
    group = await two_joined(story)
    expect_answer(await group.join("m2"), epoch=group.epoch, assignment=NOTHING)


@case("cg.resp.assignment-in-full-request", 1, required_settings=ORDINARY)
async def assignment_in_full_request(story: StoryContext) -> None:
    """The answer to a full request has the assignment: it has timeout, subscription and owned partitions."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch, owned=ALL, **FULL), epoch=group.epoch, assignment=ALL)


@case("cg.resp.assignment-in-full-request-unrevoked", 1, required_settings=ORDINARY)
async def full_request_while_revoking(story: StoryContext) -> None:
    """A full request of a member that has to release partitions is answered with what it may keep, not what it owns."""
    group = await revoking(story)
    answer = await group.beat("m1", group.epoch - 1, owned=ALL, **FULL)
    expect_answer(answer, epoch=group.epoch - 1, assignment=LOW)


@case("cg.resp.assignment-in-full-request-unreleased", 2, required_settings=ORDINARY)
async def full_request_while_waiting(story: StoryContext) -> None:
    """A full request of a member that waits for partitions is answered with none."""
    group = await two_joined(story)
    expect_answer(await group.beat("m2", group.epoch, owned=NOTHING, **FULL), epoch=group.epoch, assignment=NOTHING)


@case("cg.resp.assignment-in-full-request-that-acknowledges", 2, required_settings=ORDINARY)
async def full_request_that_acknowledges(story: StoryContext) -> None:
    """A full request that releases partitions is answered with the new epoch and what is kept."""
    group = await revoking(story)
    answer = await group.beat("m1", group.epoch - 1, owned=LOW, **FULL)
    expect_answer(answer, epoch=group.epoch, assignment=LOW)


@case("cg.resp.no-assignment-when-only-the-epoch-moves", 1, required_settings=ORDINARY)
async def answer_when_only_the_epoch_moves(story: StoryContext) -> None:
    """When only the epoch of a member moves, the answer has no assignment."""
    group = await revoking(story)
    expect_answer(await group.beat("m1", group.epoch - 1, owned=LOW), epoch=group.epoch, assignment=None)


@case("cg.resp.owned-less-than-assigned", 2, required_settings=ORDINARY)
async def member_owns_less(story: StoryContext) -> None:
    """A stable member that reports less than is assigned to it is not corrected."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch, owned=six(0)), epoch=group.epoch, assignment=None)


@case("cg.int.first-target-at-once", 1, required_settings=ORDINARY)
async def first_target_with_interval(story: StoryContext) -> None:
    """The first target of a group is computed at once, whatever the assignment interval."""
    group = await begin_with_interval(story)
    await group.expect_group("Stable", group.epoch)


@case("cg.int.second-join-waits", 1, required_settings=ORDINARY)
async def second_join_within_interval(story: StoryContext) -> None:
    """Who joins within the interval gets the old target's epoch and nothing; the group is Assigning."""
    group = await begin_with_interval(story)
    expect_answer(await group.join("m2"), epoch=group.epoch, assignment=NOTHING)
    await group.expect_group("Assigning", group.epoch + 1, group.epoch)


@case("cg.int.nobody-computes-without-a-heartbeat", 1, required_settings=ORDINARY)
async def silence_after_interval(story: StoryContext) -> None:
    """No timer computes the delayed target: without heartbeats the group stays Assigning."""
    group = await begin_with_interval(story, INTERVAL_MS)
    await group.join("m2")
    await story.sleep(2 * INTERVAL_MS / 1000)
    await group.expect_group("Assigning", group.epoch + 1, group.epoch)


@case("cg.int.next-heartbeat-computes", 1, required_settings=ORDINARY)
async def heartbeat_after_interval(story: StoryContext) -> None:
    """After the interval the heartbeat of any member computes the target."""
    group = await begin_with_interval(story, INTERVAL_MS)
    expect_answer(await group.join("m2"), epoch=group.epoch)
    await story.sleep(INTERVAL_MS / 1000 + 0.1)
    expect_answer(await group.beat("m2", group.epoch), epoch=group.epoch + 1, assignment=None)
    await group.expect_group("Reconciling", group.epoch + 1)
    await group.expect_member("m1", group.epoch, ALL, target=LOW)


@case("cg.int.members-still-reconcile-to-the-old-target", 2, required_settings=ORDINARY)
async def old_target_counts_within_interval(story: StoryContext) -> None:
    """Until a new target is computed, members reconcile to the present one."""
    group = await two_joined(story)
    await group.configure(assignment_interval_ms=LONG_INTERVAL_MS)
    expect_answer(await group.join("m3"), epoch=group.epoch, assignment=NOTHING)
    expect_answer(await group.beat("m1", group.epoch - 1), epoch=group.epoch - 1, assignment=LOW)
    await group.expect_group("Assigning", group.epoch + 1, group.epoch)


@case("cg.int.empty-group-resets-it", 2, required_settings=ORDINARY)
async def interval_after_empty(story: StoryContext) -> None:
    """When a group becomes empty its interval ends: the next member is served at once."""
    group = await begin_with_interval(story)
    await group.leave("m1")
    expect_answer(await group.join("m9"), epoch=group.epoch + 2, assignment=ALL)


@case("cg.int.subscription-change-drops-topics-at-once", 2, required_settings=ORDINARY)
async def topic_dropped_within_interval(story: StoryContext) -> None:
    """Partitions of a topic that a member no longer subscribes to are taken at once, without a new target."""
    group = await ConsumerProtocolGroup.begin(story, assignment_interval_ms=LONG_INTERVAL_MS)
    joined = await group.join("m1", SIX_TOPIC, BAR_TOPIC)
    epoch = joined.response.member_epoch
    answer = await group.beat("m1", epoch, names=(BAR_TOPIC,))
    expect_answer(answer, epoch=epoch, assignment={BAR_TOPIC: [0, 1, 2]})
    await group.expect_group("Assigning", epoch + 1, epoch)
