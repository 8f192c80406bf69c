"""Stories about failover: what a coordinator has of a consumer group after it has loaded the group from the log."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import ALL, HIGH, LOW, NOTHING, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import (
    ORDINARY,
    SHORT_SESSION_MS,
    SHORT_SESSIONS,
    add_first,
    add_second,
    group_of_one,
    revoking,
    with_short_session,
)
from regroup.conformance.harness.expect import TIMER_TOLERANCE_S
from regroup.conformance.harness.migration import mixed_group
from regroup.conformance.harness.story import StoryContext
from regroup.conformance.stories.consumer_groups.regexes import join_by_regex, receive


@case("cg.fail.everything-but-timers", 1, required_settings=ORDINARY, needs_restart=True)
async def hand_over_across_failover(story: StoryContext) -> None:
    """A failover in the middle of a hand-over changes nothing: heartbeats go on as if it had not happened."""
    group = await revoking(story)
    await story.restart_coordinator()
    await group.expect_group("Reconciling", group.epoch)
    await group.expect_member("m1", group.epoch - 1, ALL, target=LOW)
    await group.expect_member("m2", group.epoch, NOTHING, target=HIGH)
    expect_answer(await group.beat("m1", group.epoch - 1), epoch=group.epoch - 1, assignment=None)
    expect_answer(await group.beat("m1", group.epoch - 1, owned=LOW), epoch=group.epoch)
    expect_answer(await group.beat("m2", group.epoch), epoch=group.epoch, assignment=HIGH)


@case("cg.fail.session-timers-start-again", 1, required_settings=SHORT_SESSIONS, needs_restart=True)
async def sessions_after_failover(story: StoryContext) -> None:
    """Sessions start again after a failover: a silent member is removed one session timeout later."""
    group = await with_short_session(story)
    await add_first(group)
    await story.restart_coordinator()
    await story.wait_until(lambda: group.expect_group("Empty", group.epoch + 1))


@case("cg.fail.rebalance-timer-starts-again", 1, required_settings=ORDINARY, needs_restart=True)
async def rebalance_timeout_after_failover(story: StoryContext) -> None:
    """The rebalance timeout of a member that has to release partitions starts again after a failover."""
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group, rebalance_timeout_ms=SHORT_SESSION_MS)
    await add_second(group)
    expect_answer(await group.beat("m1", group.epoch - 1), epoch=group.epoch - 1, assignment=LOW)
    await story.restart_coordinator()
    await story.wait_until(lambda: group.expect_members("m2"), SHORT_SESSION_MS / 1000 + TIMER_TOLERANCE_S)


@case("cg.fail.regex-under-way-is-lost", 3, required_settings=ORDINARY, needs_restart=True)
async def resolved_regex_after_failover(story: StoryContext) -> None:
    """A regular expression that was resolved stays so after a failover; its members keep their partitions."""
    group = await ConsumerProtocolGroup.begin(story)
    topic = await group.create_topic("rx", 2)
    await join_by_regex(group, "m1", topic)
    await receive(group, "m1", {topic: [0, 1]})
    await story.restart_coordinator()
    await group.expect_member("m1", group.epoch, {topic: [0, 1]})


@case("cg.fail.delayed-target", 2, required_settings=ORDINARY, needs_restart=True)
async def delayed_target_after_failover(story: StoryContext) -> None:
    """A target that was still to be computed is computed by the first heartbeat after the interval."""
    group = await ConsumerProtocolGroup.begin(story, assignment_interval_ms=15_000)
    await add_first(group)
    expect_answer(await group.join("m2"), epoch=group.epoch, assignment=NOTHING)
    await story.restart_coordinator()
    await group.expect_group("Assigning", group.epoch + 1, group.epoch)


@case("cg.fail.empty-consumer-group", 2, required_settings=ORDINARY, needs_restart=True)
async def empty_group_after_failover(story: StoryContext) -> None:
    """An Empty consumer group is there after a failover, with its epochs."""
    group = await group_of_one(story)
    await group.leave("m1")
    await story.restart_coordinator()
    await group.expect_group("Empty", group.epoch + 1)


@case("cg.topic.first-heartbeat-after-a-load", 2, required_settings=ORDINARY, needs_restart=True)
async def topic_grown_before_failover(story: StoryContext) -> None:
    """After a failover every group compares its topics once: a topic that grew before is noticed."""
    group = await ConsumerProtocolGroup.begin(story)
    topic = await group.create_topic("grows", 1)
    answer = await group.join("m1", topic)
    epoch = answer.response.member_epoch
    await group.grow_topic(topic, 2)
    await story.restart_coordinator()
    expect_answer(await group.beat("m1", epoch), epoch=epoch + 1, assignment={topic: [0, 1]})


@case("cg.fail.mixed-group", 2, required_settings=ORDINARY, needs_restart=True)
async def mixed_group_after_failover(story: StoryContext) -> None:
    """A group in migration has its members of both protocols after a failover."""
    group, carla = await mixed_group(story, session_timeout_ms=120_000)
    await story.restart_coordinator()
    await group.expect_members(carla.id, "n1")
    await group.expect_member(carla.id, group.epoch - 1, ALL, target=LOW)
    expect_answer(await group.beat("n1", group.epoch), epoch=group.epoch, assignment=None)
