"""Who leads: the first one in, for as long as it comes back."""

from regroup.conformance.harness.cases import Need, case
from regroup.conformance.harness.expect import expect, left_with, one_of, same, that
from regroup.conformance.harness.member import Member, leave
from regroup.conformance.harness.scenes import awaiting_sync, disturbed, left_behind, new_generation, stable
from regroup.conformance.harness.story import Story
from regroup.protocol.errors import ErrorCode as E


@case("leader.first-member", 1, needs={"group.initial.rebalance.delay.ms": Need(at_least=500)})
async def first_one_leads(tell: Story) -> None:
    """The first member of a group leads it, whoever comes after."""
    anna, ben = Member(tell, "anna"), Member(tell, "ben")
    first = await anna.knocks()
    second = await ben.begins_to_join()
    for each in (first, second):
        expect(await each, error=E.NONE, generation_id=1, leader=anna.id)


@case("leader.kept-across-rebalances", 1)
async def leader_stays(tell: Story) -> None:
    """A leader that comes back keeps the lead, in whatever order the members come."""
    anna, ben = await stable(tell)
    carla = Member(tell, "carla")
    await carla.knocks()
    waiting = ben.asks_to_join()
    await waiting.is_parked()
    expect(await anna.asks_to_join(), error=E.NONE, generation_id=3, leader=anna.id)
    expect(await waiting, error=E.NONE, generation_id=3, leader=anna.id)


@case("leader.leaves", 1)
async def leader_goes(tell: Story) -> None:
    """When the leader leaves, one of the others leads the next generation, and only one."""
    anna, ben, carla = await stable(tell, size=3)
    left_with(await anna.leaves(), E.NONE)
    await tell.is_in("PreparingRebalance", members=2)
    answers = await new_generation(ben, carla)
    leaders = {each.leader for each in answers}
    that(len(leaders) == 1, f"one leader expected, came {leaders}")
    one_of("the leader", (ben.id, carla.id), leaders.pop())
    same("how many see the members", [0, 2], sorted(len(each.members) for each in answers))


@case("leader.dynamic-leader-silent", 1)
async def leader_falls_silent(tell: Story) -> None:
    """A leader that does not join again in time is out, and one of the others leads."""
    anna, ben, carla, knocking = await disturbed(tell, rebalance_timeout_ms=2000)
    answer = await ben.asks_to_join()
    expect(answer, error=E.NONE, generation_id=3)
    expect(await knocking, error=E.NONE, generation_id=3, leader=answer.leader)
    one_of("the leader", (ben.id, carla.id), answer.leader)
    expect(await anna.beats(), error=E.UNKNOWN_MEMBER_ID)
    await tell.is_in("CompletingRebalance", members=2)


@case("leader.rejoins-in-time", 2)
async def leader_comes_late(tell: Story) -> None:
    """A leader that joins again just before the rebalance timeout still leads."""
    anna, ben, _, knocking = await disturbed(tell, rebalance_timeout_ms=3000)
    waiting = ben.asks_to_join()
    await tell.passes(1.5)
    expect(await anna.asks_to_join(), error=E.NONE, generation_id=3, leader=anna.id)
    for each in (waiting, knocking):
        expect(await each, leader=anna.id)


@case("leader.none-when-empty", 2)
async def next_member_leads(tell: Story) -> None:
    """An empty group has no leader; the next one to come is."""
    await left_behind(tell)
    ben = Member(tell, "ben")
    expect(await ben.joins(), error=E.NONE, leader=ben.id, generation_id=3)


@case("leader.changes-mid-completing-by-expiry", 2)
async def leader_expires_before_sync(tell: Story) -> None:
    """A leader that falls silent before it hands out the shares is expelled; its followers start again."""
    short = tell.short_session_ms
    anna, ben = await awaiting_sync(tell, session_timeout_ms=short)
    waiting = ben.syncs()
    expect(await waiting.within(short / 1000 + 5), error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    expect(await ben.syncs(), error=E.REBALANCE_IN_PROGRESS)
    expect(await anna.syncs(), error=E.UNKNOWN_MEMBER_ID)
    expect(await ben.asks_to_join(), error=E.NONE, generation_id=3, leader=ben.id)


@case("leader.static-leader-silent", 1)
async def silent_static_leader(tell: Story) -> None:
    """A static leader that stays silent keeps its place and loses the lead to one who joined again."""
    anna, ben = await stable(tell, static=True, rebalance_timeout_ms=2000)
    waiting = ben.asks_to_join(protocols={"range": b"other"})
    answer = await waiting
    expect(answer, error=E.NONE, generation_id=3, leader=ben.id)
    same("the members that the leader sees", sorted([anna.id, ben.id]), sorted(m.member_id for m in answer.members))
    left_with(await leave(tell, anna), E.NONE)
