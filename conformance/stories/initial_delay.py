"""Stories about the initial rebalance delay: a rebalance of an Empty group waits for more members (KIP-134)."""

from regroup.conformance.harness.broker_under_test import FOO_0
from regroup.conformance.harness.cases import DEFAULT_REQUIREMENTS, SettingBounds, case
from regroup.conformance.harness.expect import (
    NotObservable,
    expect,
    expect_duration,
    expect_every_partition,
    expect_member_errors,
    expect_true,
)
from regroup.conformance.harness.groups import MEMBER_NAMES, pending_join_member, stable_group_of_one
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.remedy import Remedy
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E

DELAYED = {"group.initial.rebalance.delay.ms": SettingBounds(at_least=500), "group.max.size": SettingBounds(at_least=3)}
UNDELAYED = {**DEFAULT_REQUIREMENTS, "group.initial.rebalance.delay.ms": SettingBounds(at_most=0)}


@case("timeout.initial-delay.basic", 1, required_settings=DELAYED)
async def initial_delay_of_new_group(story: StoryContext) -> None:
    """The first rebalance of an Empty group waits for the initial rebalance delay."""
    delay_s = story.initial_rebalance_delay_ms / 1000
    join = await ConformanceMember(story, "anna").join_group(version=3).expect_pending()
    await story.expect_state("PreparingRebalance")
    expect(await join.response_within(delay_s + 10), error=E.NONE, generation_id=1)
    expect_duration("first rebalance", join.duration_s, delay_s)
    await story.expect_state("CompletingRebalance")


@case("timeout.initial-delay.extended-by-new-member", 1, required_settings=DELAYED)
async def initial_delay_is_extended(story: StoryContext) -> None:
    """A member that joins within the initial rebalance delay extends it."""
    await extend_initial_delay(story, generation_id=1)


@case("timeout.initial-delay.capped-by-rebalance-timeout", 1, required_settings=DELAYED)
async def initial_delay_is_capped(story: StoryContext) -> None:
    """The initial rebalance delay is not extended beyond the rebalance timeout."""
    delay_s = story.initial_rebalance_delay_ms / 1000
    timeout_ms = 2 * story.initial_rebalance_delay_ms
    members = [ConformanceMember(story, name, rebalance_timeout_ms=timeout_ms) for name in MEMBER_NAMES[:3]]
    joins = [member.join_group(version=3) for member in members[:2]]
    await story.sleep(1.5 * delay_s)
    joins.append(members[2].join_group(version=3))
    await story.expect_all(joins, timeout_s=3 * delay_s + 10, error=E.NONE, generation_id=1)
    expect_duration("first rebalance", joins[0].duration_s, 2 * delay_s)
    expect_true(joins[2].duration_s < delay_s, "the last member should not extend the delay")


@case("timeout.initial-delay.zero", 2, required_settings=UNDELAYED)
async def no_initial_delay(story: StoryContext) -> None:
    """Without an initial rebalance delay the first member gets generation 1 at once."""
    join = ConformanceMember(story, "anna").join_group(version=3)
    response = await join
    expect(response, error=E.NONE, generation_id=1, leader=response.member_id)
    expect_duration("first rebalance", join.duration_s, 0)


@case("timeout.initial-delay.not-cut-short-when-everybody-joined", 1, required_settings=DELAYED)
async def initial_delay_is_not_cut_short(story: StoryContext) -> None:
    """The initial rebalance delay does not end early when all known members have joined."""
    delay_s = story.initial_rebalance_delay_ms / 1000
    join = await ConformanceMember(story, "anna").start_join()
    expect(await join.response_within(delay_s + 10), error=E.NONE, generation_id=1)
    expect_duration("first rebalance", join.duration_s, delay_s)


@case(
    "timeout.initial-delay.cut-short-by-pending-expiry",
    3,
    required_settings={**DELAYED, "group.initial.rebalance.delay.ms": SettingBounds(at_least=1500)},
    correction="Not in the catalogue; found by a random course: when a pending join member expires, "
    "the join phase completes for the members that have joined, before the initial delay is over.",
)
async def pending_join_member_expires_within_delay(story: StoryContext) -> None:
    """When the last pending join member expires, the initial rebalance delay ends early."""
    shortest_ms, delay_ms = story.setting("group.min.session.timeout.ms"), story.initial_rebalance_delay_ms
    short_ms = max(600, shortest_ms)
    if short_ms >= delay_ms / 2:
        reason = f"a session of {short_ms} ms does not expire within half of the initial delay of {delay_ms} ms"
        raise NotObservable(reason, Remedy.setting("group.min.session.timeout.ms", delay_ms // 3))
    await pending_join_member(story, "ben", session_timeout_ms=short_ms)
    join = ConformanceMember(story, "anna").join_group(version=3)
    expect(await join.response_within(short_ms / 1000 + 10), error=E.NONE, generation_id=1)
    expect_true(join.duration_s < delay_ms / 1000, "the initial delay should end when the pending join member expires")


@case("timeout.initial-delay.reapplied-after-empty", 2, required_settings=DELAYED)
async def initial_delay_after_empty(story: StoryContext) -> None:
    """A group that became Empty waits for the initial rebalance delay again, and a second member extends it."""
    anna = await stable_group_of_one(story)
    expect_every_partition(await anna.commit_offsets({FOO_0: 1}), E.NONE)
    await anna.leave_group()
    await extend_initial_delay(story, generation_id=3)


@case(
    "timeout.initial-delay.left-over-newcomer",
    3,
    required_settings=DELAYED,
    correction="Not in the catalogue; found by a random course: a member that cannot extend the initial "
    "delay any more, because the rebalance timeout is reached, extends the next one.",
)
async def late_member_extends_next_delay(story: StoryContext) -> None:
    """A member that joins too late to extend the initial rebalance delay extends the next one of the group."""
    delay_s, timeout_ms = story.initial_rebalance_delay_ms / 1000, story.initial_rebalance_delay_ms * 8 // 5
    members = [ConformanceMember(story, name, rebalance_timeout_ms=timeout_ms) for name in MEMBER_NAMES[:3]]
    joins = [member.join_group(version=3) for member in members[:2]]
    await story.sleep(1.3 * delay_s)
    joins.append(members[2].join_group(version=3))
    await story.expect_all(joins, timeout_s=delay_s + 10, error=E.NONE, generation_id=1)
    for member in members:
        expect_member_errors(await member.leave_group(), E.NONE)
    await story.expect_state("Empty")
    next_join = ConformanceMember(story, "dora", rebalance_timeout_ms=timeout_ms).join_group(version=3)
    expect(await next_join.response_within(2 * delay_s + 10), error=E.NONE)
    expect_duration("next initial rebalance delay", next_join.duration_s, 1.6 * delay_s)


@case("timeout.initial-delay.member-leaves", 3, required_settings=DELAYED)
async def leave_within_initial_delay(story: StoryContext) -> None:
    """When a member leaves within the initial rebalance delay, its JoinGroup is refused; the other members wait on."""
    anna, ben = ConformanceMember(story, "anna"), ConformanceMember(story, "ben")
    anna_join, ben_join = await anna.start_join(), await ben.start_join()
    await ben_join.expect_pending()
    expect_member_errors(await ben.leave_group(), E.NONE)
    expect(await ben_join, error=E.UNKNOWN_MEMBER_ID, member_id="")
    await story.expect_state("PreparingRebalance", members=1)
    timeout_s = 3 * story.initial_rebalance_delay_ms / 1000 + 10
    expect(await anna_join.response_within(timeout_s), error=E.NONE, generation_id=1)


async def extend_initial_delay(story: StoryContext, *, generation_id: int) -> None:
    """Ben joins, and Carla after half of the initial rebalance delay: both wait for two delays."""
    delay_s = story.initial_rebalance_delay_ms / 1000
    first = ConformanceMember(story, "ben").join_group(version=3)
    await story.sleep(delay_s / 2)
    second = ConformanceMember(story, "carla").join_group(version=3)
    await story.expect_all((first, second), timeout_s=3 * delay_s + 10, error=E.NONE, generation_id=generation_id)
    expect_duration("rebalance", first.duration_s, 2 * delay_s)


@case(
    "timeout.initial-delay.cut-short-by-member-expiry",
    2,
    required_settings={
        "group.initial.rebalance.delay.ms": SettingBounds(at_least=1500),
        "group.min.session.timeout.ms": SettingBounds(at_most=600),
        "group.max.size": SettingBounds(at_least=3),
    },
    correction="Not in the catalogue; found by probes: like a pending join member, a member that expires ends the "
    "join phase for those that have joined, before the initial delay is over.",
)
async def newcomer_expires_within_delay(story: StoryContext) -> None:
    """When the only member that is missing expires, the initial rebalance delay ends early."""
    short_ms, delay_ms = 600, story.initial_rebalance_delay_ms
    anna = ConformanceMember(story, "anna", session_timeout_ms=short_ms)
    lost = await (await anna.start_join()).expect_pending()
    expect(await anna.heartbeat(generation_id=0), error=E.REBALANCE_IN_PROGRESS)
    join = ConformanceMember(story, "ben").join_group(version=3)
    expect(await join.response_within(short_ms / 1000 + 10), error=E.NONE, generation_id=1)
    expect_true(join.duration_s < delay_ms / 1000, "the initial delay should end when the newcomer expires")
    expect(await lost, error=E.UNKNOWN_MEMBER_ID)
