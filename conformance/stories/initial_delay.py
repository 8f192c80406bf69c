"""The initial delay: how long the first rebalance of an empty group waits for more members."""

from regroup.conformance.harness.cases import LEFT_IN_PEACE, Need, case
from regroup.conformance.harness.expect import every_partition, expect, left_with, that, took
from regroup.conformance.harness.member import Member
from regroup.conformance.harness.scenes import NAMES, alone
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import FOO
from regroup.protocol.errors import ErrorCode as E

DELAYED = {"group.initial.rebalance.delay.ms": Need(at_least=500), "group.max.size": Need(at_least=3)}
UNDELAYED = {**LEFT_IN_PEACE, "group.initial.rebalance.delay.ms": Need(at_most=0)}


@case("timeout.initial-delay.basic", 1, needs=DELAYED)
async def first_rebalance_waits(tell: Story) -> None:
    """The first member of an empty group waits for the initial delay, in case others come."""
    delay = tell.initial_delay_ms / 1000
    waiting = Member(tell, "anna").asks_to_join(version=3)
    await waiting.is_parked()
    await tell.is_in("PreparingRebalance")
    expect(await waiting.within(delay + 10), error=E.NONE, generation_id=1)
    took("the first rebalance", waiting.took_seconds, delay, delay)
    await tell.is_in("CompletingRebalance")


@case("timeout.initial-delay.extended-by-new-member", 1, needs=DELAYED)
async def newcomer_extends_the_delay(tell: Story) -> None:
    """A second member within the delay makes the group wait once more."""
    await two_come_within_the_delay(tell, "anna", "ben", generation_id=1)


@case("timeout.initial-delay.capped-by-rebalance-timeout", 1, needs=DELAYED)
async def delay_has_an_end(tell: Story) -> None:
    """However many come, the first rebalance is over after the rebalance timeout."""
    delay = tell.initial_delay_ms / 1000
    timeout_ms = 2 * tell.initial_delay_ms
    members = [Member(tell, name, rebalance_timeout_ms=timeout_ms) for name in NAMES[:3]]
    waiting = [each.asks_to_join(version=3) for each in members[:2]]
    await tell.passes(1.5 * delay)
    waiting.append(members[2].asks_to_join(version=3))
    for each in waiting:
        expect(await each.within(3 * delay + 10), error=E.NONE, generation_id=1)
    took("the first rebalance", waiting[0].took_seconds, 2 * delay, 2 * delay)
    that(waiting[2].took_seconds < delay, "the last member should not have extended the wait")


@case("timeout.initial-delay.zero", 2, needs=UNDELAYED)
async def no_delay(tell: Story) -> None:
    """Without a delay the first member is alone in generation 1 right away."""
    waiting = Member(tell, "anna").asks_to_join(version=3)
    answer = await waiting
    expect(answer, error=E.NONE, generation_id=1, leader=answer.member_id)
    took("the first rebalance", waiting.took_seconds, 0, 0)


@case("timeout.initial-delay.not-cut-short-when-everybody-joined", 1, needs=DELAYED)
async def delay_is_waited_out(tell: Story) -> None:
    """That everybody who is known waits does not end the initial delay."""
    delay = tell.initial_delay_ms / 1000
    anna = Member(tell, "anna")
    waiting = await anna.begins_to_join()
    expect(await waiting.within(delay + 10), error=E.NONE, generation_id=1)
    took("the first rebalance", waiting.took_seconds, delay, delay)


@case(
    "timeout.initial-delay.cut-short-by-pending-expiry",
    3,
    needs={**DELAYED, "group.initial.rebalance.delay.ms": Need(at_least=1500)},
    corrected="The catalogue does not have it (a random course found it): when a pending id expires, the join phase "
    "ends for those who have joined, although the initial delay is not over.",
)
async def expiry_of_an_id_ends_the_delay(tell: Story) -> None:
    """When the last pending id expires, the initial delay ends for those who have joined."""
    short = max(600, tell.setting("group.min.session.timeout.ms"))
    that(short < tell.initial_delay_ms / 2, f"a session of {short} ms does not end within the initial delay")
    await Member(tell, "ben", session_timeout_ms=short).gets_an_id()
    waiting = Member(tell, "anna").asks_to_join(version=3)
    expect(await waiting.within(short / 1000 + 10), error=E.NONE, generation_id=1)
    that(waiting.took_seconds < tell.initial_delay_ms / 1000, "the initial delay should have ended with the id")


@case("timeout.initial-delay.reapplied-after-empty", 2, needs=DELAYED)
async def delay_after_everyone_left(tell: Story) -> None:
    """A group that has become empty waits for the initial delay again, and a second newcomer extends it."""
    anna = await alone(tell)
    every_partition(await anna.commits({(FOO, 0): 1}), E.NONE)
    await anna.leaves()
    await two_come_within_the_delay(tell, "ben", "carla", generation_id=3)


@case(
    "timeout.initial-delay.left-over-newcomer",
    3,
    needs=DELAYED,
    corrected="The catalogue does not have it (a random course found it): a newcomer that could not draw the initial "
    "delay out any more, because the rebalance timeout was reached, draws out the next one.",
)
async def newcomer_draws_out_the_next_delay(tell: Story) -> None:
    """Who comes too late to draw the initial delay out draws out that of the group's next life."""
    delay, timeout_ms = tell.initial_delay_ms / 1000, tell.initial_delay_ms * 8 // 5
    members = [Member(tell, name, rebalance_timeout_ms=timeout_ms) for name in NAMES[:3]]
    waiting = [each.asks_to_join(version=3) for each in members[:2]]
    await tell.passes(1.3 * delay)
    waiting.append(members[2].asks_to_join(version=3))
    for each in waiting:
        expect(await each.within(delay + 10), error=E.NONE, generation_id=1)
    for member in members:
        left_with(await member.leaves(), E.NONE)
    await tell.is_in("Empty")
    alone_again = Member(tell, "dora", rebalance_timeout_ms=timeout_ms).asks_to_join(version=3)
    expect(await alone_again.within(2 * delay + 10), error=E.NONE)
    took("the next initial delay", alone_again.took_seconds, 1.6 * delay, 1.6 * delay)


@case("timeout.initial-delay.member-leaves", 3, needs=DELAYED)
async def leaving_within_the_delay(tell: Story) -> None:
    """Who leaves while it waits is answered at once, with nothing; the others wait on."""
    anna, ben = Member(tell, "anna"), Member(tell, "ben")
    first, second = await anna.begins_to_join(), await ben.begins_to_join()
    await second.is_parked()
    left_with(await ben.leaves(), E.NONE)
    expect(await second, error=E.UNKNOWN_MEMBER_ID, member_id="")
    await tell.is_in("PreparingRebalance", members=1)
    expect(await first.within(3 * tell.initial_delay_ms / 1000 + 10), error=E.NONE, generation_id=1)


async def two_come_within_the_delay(tell: Story, sooner: str, later: str, *, generation_id: int) -> None:
    """The second comes when half of the delay is over, and so both wait for two of them."""
    delay = tell.initial_delay_ms / 1000
    first = Member(tell, sooner).asks_to_join(version=3)
    await tell.passes(delay / 2)
    second = Member(tell, later).asks_to_join(version=3)
    for each in (first, second):
        expect(await each.within(3 * delay + 10), error=E.NONE, generation_id=generation_id)
    took("the rebalance", first.took_seconds, 2 * delay, 2 * delay)
