"""Stories about session timeouts and rebalance timeouts of the consumer protocol."""

from regroup.conformance.harness.broker_under_test import SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import ALL, LOW, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import (
    ORDINARY,
    SHORT_SESSION_MS,
    SHORT_SESSIONS,
    add_first,
    add_second,
    group_of_one,
    settle,
    two_joined,
    with_short_session,
)
from regroup.conformance.harness.expect import TIMER_TOLERANCE_S, expect_duration
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E

SHORT_REBALANCE_MS = 1_500
SHORT_SESSION_S = SHORT_SESSION_MS / 1000


async def settled_with_short_session(story: StoryContext) -> ConsumerProtocolGroup:
    """Make a group of two stable members whose sessions are short."""
    group = await with_short_session(story)
    await add_first(group)
    await add_second(group)
    expect_answer(await group.beat("m1", group.epoch - 1), assignment=LOW)
    await settle(group)
    return group


async def wait_for_removal(group: ConsumerProtocolGroup, member_id: str, timeout_s: float) -> None:
    """Wait until only the other members are described."""

    async def check() -> None:
        await group.expect_members(*({"m1", "m2"} - {member_id}))

    await group.story.wait_until(check, timeout_s + TIMER_TOLERANCE_S)


async def beat_until_removed(group: ConsumerProtocolGroup, silent: str, beating: str) -> None:
    """Let one member send heartbeats with a wrong epoch, and another good ones, until the first is removed."""
    epoch = group.epoch

    async def check() -> None:
        await group.beat(silent, 99)
        await group.beat(beating, epoch, owned=LOW)
        await group.expect_members(beating)
        await group.story.sleep(0.2)

    await group.story.wait_until(check, SHORT_SESSION_S + TIMER_TOLERANCE_S)


@case("cg.sess.expires", 2, required_settings=SHORT_SESSIONS)
async def session_expires(story: StoryContext) -> None:
    """A member that is silent for its session timeout is removed; the group epoch rises."""
    group = await with_short_session(story)
    await add_first(group)
    began_at_s = story.elapsed_s()
    await story.wait_until(group.expect_members)
    expect_duration("the session", story.elapsed_s() - began_at_s, SHORT_SESSION_S)
    await group.expect_group("Empty", group.epoch + 1)


@case("cg.sess.starts-and-restarts", 1, required_settings=SHORT_SESSIONS)
async def heartbeats_restart_session(story: StoryContext) -> None:
    """Every accepted heartbeat starts the session again."""
    group = await with_short_session(story)
    await add_first(group)
    for _ in range(4):
        await story.sleep(0.4 * SHORT_SESSION_S)
        expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch)
    await group.expect_members("m1")


@case("cg.sess.expired-member-comes-back", 1, required_settings=SHORT_SESSIONS)
async def heartbeat_after_expiry(story: StoryContext) -> None:
    """A member whose session has expired is unknown."""
    group = await with_short_session(story)
    await add_first(group)
    await story.wait_until(group.expect_members)
    expect_answer(await group.beat("m1", group.epoch), error=E.UNKNOWN_MEMBER_ID)


@case("cg.sess.last-member-expires", 1, required_settings=SHORT_SESSIONS)
async def last_session_expires(story: StoryContext) -> None:
    """When the session of the last member expires, the assignment epoch follows the group epoch."""
    group = await with_short_session(story)
    await add_first(group)
    await story.wait_until(lambda: group.expect_group("Empty", group.epoch + 1))


@case("cg.sess.by-the-group", 1, required_settings=SHORT_SESSIONS)
async def session_timeout_of_group(story: StoryContext) -> None:
    """A group's own session timeout counts from the next heartbeat; a running session is not changed."""
    group = await group_of_one(story)
    await group.configure(session_timeout_ms=SHORT_SESSION_MS, heartbeat_interval_ms=500)
    await story.sleep(1.5 * SHORT_SESSION_S)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch)
    await story.wait_until(group.expect_members, SHORT_SESSION_S + TIMER_TOLERANCE_S)


@case("cg.sess.clients-cannot-choose", 2, required_settings=SHORT_SESSIONS)
async def rebalance_timeout_is_no_session_timeout(story: StoryContext) -> None:
    """A member cannot choose its session timeout: a long rebalance timeout does not keep it."""
    group = await with_short_session(story)
    await add_first(group, rebalance_timeout_ms=600_000)
    await story.wait_until(group.expect_members, SHORT_SESSION_S + TIMER_TOLERANCE_S)


@case("cg.sess.refused-heartbeat-does-not-count", 2, required_settings=SHORT_SESSIONS)
async def refused_heartbeats_do_not_count(story: StoryContext) -> None:
    """Heartbeats that are refused do not keep a member in its group."""
    group = await settled_with_short_session(story)
    await beat_until_removed(group, "m2", "m1")


@case("cg.epoch.fenced-request-changes-nothing", 2, required_settings=SHORT_SESSIONS)
async def fenced_heartbeats_change_nothing(story: StoryContext) -> None:
    """A fenced heartbeat changes neither the member nor its session."""
    group = await settled_with_short_session(story)
    expect_answer(await group.beat("m2", 99, names=("other",)), error=E.FENCED_MEMBER_EPOCH)
    await group.expect_group("Stable", group.epoch)
    await beat_until_removed(group, "m2", "m1")


@case("cg.sess.static-member-away", 1, required_settings=SHORT_SESSIONS)
async def session_of_member_away(story: StoryContext) -> None:
    """Leaving with -2 neither restarts nor stops the session: it ends as long after the last heartbeat as ever."""
    group = await with_short_session(story)
    await add_first(group, instance_id="i1")
    began_at_s = story.elapsed_s()
    await story.sleep(0.5 * SHORT_SESSION_S)
    expect_answer(await group.beat("m1", -2, instance_id="i1"))
    await story.wait_until(group.expect_members)
    expect_duration("the session", story.elapsed_s() - began_at_s, SHORT_SESSION_S)
    await group.expect_group("Empty", group.epoch + 1)


async def revoke_slowly(story: StoryContext) -> ConsumerProtocolGroup:
    """Make a group whose m1, with a short rebalance timeout, has just heard that it must release partitions."""
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group, rebalance_timeout_ms=SHORT_REBALANCE_MS)
    await add_second(group)
    expect_answer(await group.beat("m1", group.epoch - 1), epoch=group.epoch - 1, assignment=LOW)
    return group


@case("cg.reb.expires", 2, required_settings=ORDINARY)
async def rebalance_timeout_expires(story: StoryContext) -> None:
    """A member that does not release its partitions within its rebalance timeout is removed."""
    group = await revoke_slowly(story)
    began_at_s = story.elapsed_s()
    await wait_for_removal(group, "m1", SHORT_REBALANCE_MS / 1000)
    expect_duration("the rebalance timeout", story.elapsed_s() - began_at_s, SHORT_REBALANCE_MS / 1000)
    expect_answer(await group.beat("m1", group.epoch - 1), error=E.UNKNOWN_MEMBER_ID)
    expect_answer(await group.beat("m2", group.epoch), epoch=group.epoch + 1, assignment=ALL)


@case("cg.reb.not-prolonged", 2, required_settings=ORDINARY)
async def heartbeats_do_not_prolong_revocation(story: StoryContext) -> None:
    """Heartbeats that release nothing do not prolong the rebalance timeout."""
    group = await revoke_slowly(story)
    began_at_s = story.elapsed_s()

    async def check() -> None:
        answer = await group.beat("m1", group.epoch - 1)
        expect_answer(answer, error=E.UNKNOWN_MEMBER_ID)

    await story.wait_until(check, SHORT_REBALANCE_MS / 1000 + TIMER_TOLERANCE_S)
    expect_duration("the rebalance timeout", story.elapsed_s() - began_at_s, SHORT_REBALANCE_MS / 1000)


@case("cg.reb.not-while-unreleased", 2, required_settings=ORDINARY)
async def waiting_has_no_timeout(story: StoryContext) -> None:
    """A member that waits for partitions has no rebalance timeout."""
    group = await two_joined(story, rebalance_timeout_ms=500)
    await story.sleep(1.5)
    expect_answer(await group.beat("m2", group.epoch), epoch=group.epoch)


@case("cg.reb.value-at-the-time-of-asking", 3, required_settings=ORDINARY)
async def longer_rebalance_timeout_comes_too_late(story: StoryContext) -> None:
    """A rebalance timeout that is changed while it runs counts only for the next revocation."""
    group = await revoke_slowly(story)
    expect_answer(await group.beat("m1", group.epoch - 1, rebalance_timeout_ms=90_000))
    await wait_for_removal(group, "m1", SHORT_REBALANCE_MS / 1000)


@case("cg.reb.only-for-its-epoch", 3, required_settings=ORDINARY)
async def rebalance_timeout_ends_with_revocation(story: StoryContext) -> None:
    """A member that has released its partitions in time stays, also after its rebalance timeout."""
    group = await revoke_slowly(story)
    expect_answer(await group.beat("m1", group.epoch - 1, owned={SIX_TOPIC: [0, 1, 2]}), epoch=group.epoch)
    await story.sleep(1.5 * SHORT_REBALANCE_MS / 1000)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch)
