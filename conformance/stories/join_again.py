"""JoinGroup in a group with members: who waits, and when a generation begins."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, same
from regroup.conformance.harness.member import Member
from regroup.conformance.harness.scenes import (
    alone,
    awaiting_sync,
    disturbed,
    stable,
)
from regroup.conformance.harness.story import TWO_ASSIGNORS, Story, subscribed_to
from regroup.conformance.harness.target import FOO
from regroup.protocol.errors import ErrorCode as E

OTHER_TOPIC = {"range": subscribed_to(FOO), "roundrobin": subscribed_to(FOO)}
OTHER_ORDER = {"roundrobin": TWO_ASSIGNORS["roundrobin"], "range": TWO_ASSIGNORS["range"]}


@case("join.preparing.rejoin-parks", 1)
async def rejoining_waits_for_the_others(tell: Story) -> None:
    """While a rebalance is on, a member that joins again waits for all the others."""
    anna, ben, _, _ = await disturbed(tell)
    waiting = ben.asks_to_join()
    await waiting.is_parked()
    await tell.is_in("PreparingRebalance", members=3)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("join.preparing.last-rejoin-completes", 1)
async def the_last_one_completes_it(tell: Story) -> None:
    """When the last member has joined again all are answered at once, and only the leader sees the members."""
    anna, ben, carla, knocking = await disturbed(tell)
    first = anna.asks_to_join()
    await first.is_parked()
    last = await ben.asks_to_join()
    expect(last, error=E.NONE, generation_id=3, leader=anna.id, members=[])
    expect(await knocking, error=E.NONE, generation_id=3, leader=anna.id, members=[])
    listed = sorted(each.member_id for each in (await first).members)
    same("the members that the leader sees", sorted([anna.id, ben.id, carla.id]), listed)
    await tell.is_in("CompletingRebalance", members=3)


@case("join.completing.follower-unchanged", 1)
async def follower_asks_again_before_sync(tell: Story) -> None:
    """A follower that lost its answer asks again, and is told the generation that has begun."""
    anna, ben = await awaiting_sync(tell)
    answer = await ben.asks_to_join()
    expect(answer, error=E.NONE, generation_id=2, leader=anna.id, member_id=ben.id, members=[], protocol_name="range")
    expect(answer, skip_assignment=False)
    await tell.is_in("CompletingRebalance", members=2)


@case("join.completing.leader-unchanged", 1)
async def leader_asks_again_before_sync(tell: Story) -> None:
    """A leader that lost its answer is told the generation and the members again; nothing starts anew."""
    anna, ben = await awaiting_sync(tell)
    answer = await anna.asks_to_join()
    expect(answer, error=E.NONE, generation_id=2, leader=anna.id)
    listed = {each.member_id: each.metadata for each in answer.members}
    same("members and metadata", {each.id: each.protocols["range"] for each in (anna, ben)}, listed)
    await tell.is_in("CompletingRebalance")


@case("join.completing.changed-metadata", 1)
async def change_of_mind_before_sync(tell: Story) -> None:
    """A member that changes its subscription before the shares are there starts the rebalance again."""
    anna, ben = await awaiting_sync(tell)
    waiting = ben.syncs()
    await waiting.is_parked()
    rejoining = anna.asks_to_join(protocols=OTHER_TOPIC)
    expect(await waiting, error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    await rejoining.is_parked()
    await tell.is_in("PreparingRebalance", members=2)


@case("join.completing.new-member", 1)
async def newcomer_before_sync(tell: Story) -> None:
    """A newcomer before the shares are there starts the rebalance again."""
    _, ben = await awaiting_sync(tell)
    waiting = ben.syncs()
    await waiting.is_parked()
    knocking = Member(tell, "carla").asks_to_join(version=3)
    expect(await waiting, error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    await knocking.is_parked()
    await tell.is_in("PreparingRebalance", members=3)


@case("join.stable.follower-unchanged", 1)
async def follower_asks_again_in_stable(tell: Story) -> None:
    """A follower that joins again with nothing new is told the present generation; no rebalance."""
    anna, ben = await stable(tell)
    answer = await ben.asks_to_join()
    expect(answer, error=E.NONE, generation_id=2, leader=anna.id, members=[], member_id=ben.id)
    await tell.is_in("Stable", members=2)


@case("join.stable.follower-changed-metadata", 1)
async def follower_changes_its_mind(tell: Story) -> None:
    """A follower with a new subscription starts a rebalance."""
    anna, ben = await stable(tell)
    await ben.asks_to_join(protocols=OTHER_TOPIC).is_parked()
    await tell.is_in("PreparingRebalance", members=2)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("join.stable.leader-unchanged-rebalances", 1)
async def leader_joins_again(tell: Story) -> None:
    """The leader's JoinGroup always starts a rebalance: that is how new partitions reach the group."""
    anna, ben = await stable(tell)
    waiting = anna.asks_to_join()
    await waiting.is_parked()
    await tell.is_in("PreparingRebalance", members=2)
    expect(await ben.asks_to_join(), error=E.NONE, generation_id=3, leader=anna.id)
    expect(await waiting, error=E.NONE, generation_id=3)


@case("join.stable.protocol-order-matters", 2)
async def same_assignors_in_another_order(tell: Story) -> None:
    """The same assignors in another order are a change, and start a rebalance."""
    _, ben = await stable(tell)
    await ben.asks_to_join(protocols=OTHER_ORDER).is_parked()
    await tell.is_in("PreparingRebalance", members=2)


@case("join.stable.new-member-rebalances", 1)
async def newcomer_disturbs(tell: Story) -> None:
    """A newcomer that comes back with its id starts a rebalance and waits."""
    anna = await alone(tell)
    await Member(tell, "ben").knocks()
    await tell.is_in("PreparingRebalance", members=2)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("join.pending-blocks-completion", 1)
async def pending_id_is_waited_for(tell: Story) -> None:
    """A join phase is not over while an id that was handed out has not come back."""
    anna, ben, _, knocking = await disturbed(tell)
    await Member(tell, "dora").gets_an_id()
    waiting = [each.asks_to_join() for each in (anna, ben)]
    for each in (*waiting, knocking):
        await each.is_parked()
    await tell.is_in("PreparingRebalance", members=3)


@case("join.pending-joins-completes", 1)
async def pending_id_comes_back(tell: Story) -> None:
    """When the last pending id comes back, the generation begins for all."""
    anna, ben, _, knocking = await disturbed(tell)
    dora = Member(tell, "dora")
    await dora.gets_an_id()
    waiting = [knocking, anna.asks_to_join(), ben.asks_to_join()]
    await waiting[-1].is_parked()
    expect(await dora.asks_to_join(), error=E.NONE, generation_id=3, leader=anna.id)
    for each in waiting:
        expect(await each, error=E.NONE, generation_id=3)
    await tell.is_in("CompletingRebalance", members=4)


@case("join.pending-survives-rebalance-timeout", 3)
async def timeout_does_not_wait_for_pending(tell: Story) -> None:
    """When the rebalance timeout is over, pending ids are not waited for, and not forgotten."""
    _, _, carla, knocking = await disturbed(tell, rebalance_timeout_ms=2000)
    dora = Member(tell, "dora")
    await dora.gets_an_id()
    answer = await knocking
    expect(answer, error=E.NONE, generation_id=3, leader=carla.id)
    same("the number of members", 1, len(answer.members))
    await tell.is_in("CompletingRebalance", members=1)
    await dora.asks_to_join().is_parked()
    await tell.is_in("PreparingRebalance", members=2)


@case("join.generation.first-is-one", 1)
async def first_generation(tell: Story) -> None:
    """The first generation is 1, and each completed join phase adds one, even one that leaves nobody."""
    anna = await alone(tell)
    same("the first generation", 1, anna.generation)
    await anna.leaves()
    ben = Member(tell, "ben")
    expect(await ben.joins(), error=E.NONE, generation_id=3, leader=ben.id)


@case("join.generation.unchanged-while-preparing", 1)
async def generation_while_preparing(tell: Story) -> None:
    """While the group prepares the next generation the present one still counts."""
    anna, ben, _, _ = await disturbed(tell)
    expect(await anna.beats(generation=2), error=E.REBALANCE_IN_PROGRESS)
    expect(await ben.beats(generation=3), error=E.ILLEGAL_GENERATION)
