"""Stories about static members of the consumer protocol: they leave for a while with epoch -2, and return."""

from regroup.conformance.harness.broker_under_test import BAR_TOPIC, SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import HIGH, NOTHING, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import (
    ORDINARY,
    SHORT_SESSION_MS,
    SHORT_SESSIONS,
    add_first,
    add_second,
    away,
    group_of_one,
    static_pair,
    with_short_session,
)
from regroup.conformance.harness.expect import expect, expect_equal
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


async def replaced(story: StoryContext) -> ConsumerProtocolGroup:
    """Make a group in which m2b has taken the place of m2, which was away."""
    group = await away(story)
    expect_answer(await group.join("m2b", instance_id="i2"), epoch=group.epoch, assignment=HIGH)
    return group


@case("cg.static.new-instance", 1, required_settings=ORDINARY)
async def new_static_member(story: StoryContext) -> None:
    """A static member with a new instance id joins like any new member."""
    group = await group_of_one(story)
    expect_answer(await group.join("m2", instance_id="i2"), epoch=group.epoch + 1, assignment=NOTHING)


@case("cg.static.instance-in-use", 1, required_settings=ORDINARY)
async def instance_id_in_use(story: StoryContext) -> None:
    """An instance id whose member has not left for a while is not given to another member."""
    group = await static_pair(story)
    expect_answer(await group.join("m3", instance_id="i2"), error=E.UNRELEASED_INSTANCE_ID)


@case("cg.static.own-rejoin-is-refused-too", 2, required_settings=ORDINARY)
async def own_instance_id_in_use(story: StoryContext) -> None:
    """Even the holder of an instance id cannot join again with epoch 0, unless it has left with -2."""
    group = await static_pair(story)
    expect_answer(await group.join("m2", instance_id="i2"), error=E.UNRELEASED_INSTANCE_ID)


@case("cg.static.wrong-member-id", 1, required_settings=ORDINARY)
async def foreign_member_id(story: StoryContext) -> None:
    """A heartbeat with an instance id and another member id than its holder's is fenced."""
    group = await static_pair(story)
    expect_answer(await group.beat("mx", group.epoch, instance_id="i2"), error=E.FENCED_INSTANCE_ID)


@case("cg.static.unknown-instance", 1, required_settings=ORDINARY)
async def foreign_instance_id(story: StoryContext) -> None:
    """A heartbeat with an unknown instance id is refused, also if the member id is known."""
    group = await static_pair(story)
    expect_answer(await group.beat("m2", group.epoch, instance_id="i9"), error=E.UNKNOWN_MEMBER_ID)


@case("cg.static.unknown-instance-leaves", 2, required_settings=ORDINARY)
async def foreign_instance_id_leaves(story: StoryContext) -> None:
    """A leave with an unknown instance id is refused."""
    group = await static_pair(story)
    expect_answer(await group.beat("m2", -1, instance_id="i9"), error=E.UNKNOWN_MEMBER_ID)


@case("cg.static.wrong-member-id-leaves", 2, required_settings=ORDINARY)
async def foreign_member_id_leaves(story: StoryContext) -> None:
    """A leave with an instance id and another member id than its holder's is fenced."""
    group = await static_pair(story)
    expect_answer(await group.beat("mx", -2, instance_id="i2"), error=E.FENCED_INSTANCE_ID)
    await group.expect_group("Stable", group.epoch)


@case("cg.static.epoch-checked-like-any", 2, required_settings=ORDINARY)
async def wrong_epoch_of_static_member(story: StoryContext) -> None:
    """The epoch of a static member is checked like that of any member."""
    group = await static_pair(story)
    expect_answer(await group.beat("m2", 9, instance_id="i2"), error=E.FENCED_MEMBER_EPOCH)


@case("cg.static.temporary-leave", 2, required_settings=ORDINARY)
async def static_member_leaves_for_a_while(story: StoryContext) -> None:
    """The answer to -2 has epoch -2; the group epoch does not move, and the member keeps its partitions."""
    group = await static_pair(story)
    answer = await group.beat("m2", -2, instance_id="i2")
    expect_answer(answer, epoch=-2, assignment=None)
    await group.expect_group("Reconciling", group.epoch)
    await group.expect_member("m2", -2, HIGH)


@case("cg.static.heartbeat-after-temporary-leave", 2, required_settings=ORDINARY)
async def heartbeat_while_away(story: StoryContext) -> None:
    """A member that left for a while is fenced until it joins again with epoch 0."""
    group = await away(story)
    expect_answer(await group.beat("m2", group.epoch, instance_id="i2"), error=E.FENCED_MEMBER_EPOCH)


@case("cg.static.temporary-leave-leaves-rebalance-timer", 3, required_settings=ORDINARY)
async def rebalance_timeout_of_member_away(story: StoryContext) -> None:
    """The rebalance timeout of a member that left for a while removes no member."""
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group, instance_id="i1", rebalance_timeout_ms=1_000)
    await add_second(group)
    expect_answer(await group.beat("m1", group.epoch - 1, instance_id="i1"), epoch=group.epoch - 1)
    expect_answer(await group.beat("m1", -2, instance_id="i1"))
    await story.sleep(2)
    await group.expect_members("m1", "m2")


@case("cg.static.comes-back", 1, required_settings=ORDINARY)
async def static_member_returns(story: StoryContext) -> None:
    """A static member returns under another member id, and gets its partitions at once; no epoch is spent."""
    group = await away(story)
    expect_answer(await group.join("m2b", instance_id="i2"), epoch=group.epoch, assignment=HIGH)
    await group.expect_group("Stable", group.epoch)


@case("cg.static.comes-back-under-the-same-id", 2, required_settings=ORDINARY)
async def static_member_returns_under_the_same_id(story: StoryContext) -> None:
    """A static member that left for a while may return under its own member id."""
    group = await away(story)
    expect_answer(await group.join("m2", instance_id="i2"), epoch=group.epoch, assignment=HIGH)


@case("cg.static.old-id-after-replacement", 1, required_settings=ORDINARY)
async def old_member_id_is_fenced(story: StoryContext) -> None:
    """After its replacement the old member id is fenced, if it names the instance id."""
    group = await replaced(story)
    expect_answer(await group.beat("m2", group.epoch, instance_id="i2"), error=E.FENCED_INSTANCE_ID)


@case("cg.static.old-id-without-instance", 2, required_settings=ORDINARY)
async def old_member_id_is_unknown(story: StoryContext) -> None:
    """After its replacement the old member id is unknown, if it does not name the instance id."""
    group = await replaced(story)
    expect_answer(await group.beat("m2", group.epoch), error=E.UNKNOWN_MEMBER_ID)


@case("cg.static.comes-back-with-other-topics", 1, required_settings=ORDINARY)
async def static_member_returns_with_other_topics(story: StoryContext) -> None:
    """A static member that returns with another subscription raises the group epoch."""
    group = await away(story)
    answer = await group.join("m2c", SIX_TOPIC, BAR_TOPIC, instance_id="i2")
    expect_answer(answer, epoch=group.epoch + 1)
    expect_equal("partitions of the other topic", [0, 1, 2], [*(answer.assignment or {}).get(BAR_TOPIC, ())])
    await group.expect_group("Reconciling", group.epoch + 1)


@case("cg.static.replacement-keeps-old-timers", 3, required_settings=SHORT_SESSIONS)
async def old_session_of_replaced_member(story: StoryContext) -> None:
    """The session of a replaced member id ends without effect on its replacement."""
    group = await with_short_session(story)
    await add_first(group, instance_id="i1")
    expect_answer(await group.beat("m1", -2, instance_id="i1"))
    expect_answer(await group.join("m1b", instance_id="i1"))
    for _ in range(4):
        await story.sleep(0.4 * SHORT_SESSION_MS / 1000)
        expect_answer(await group.beat("m1b", group.epoch, instance_id="i1"), epoch=group.epoch)


@case("cg.static.leaves-for-good", 1, required_settings=ORDINARY)
async def static_member_leaves_for_good(story: StoryContext) -> None:
    """A static member that sends -1 is removed; the group epoch rises."""
    group = await static_pair(story)
    expect_answer(await group.beat("m2", -1, instance_id="i2"), epoch=-1)
    await group.expect_group("Assigning", group.epoch + 1, group.epoch)


@case("cg.static.away-counts-as-member", 2, required_settings=ORDINARY)
async def member_away_is_described(story: StoryContext) -> None:
    """A member that is away is described with epoch -2, its partitions and its instance id."""
    group = await away(story)
    await group.expect_member("m2", -2, HIGH)
    expect(await group.described_member("m2"), instance_id="i2")
