"""JoinGroup: who is let in, who waits, and when a generation begins."""

from regroup.conformance.cases import case
from regroup.conformance.expect import expect, same, that
from regroup.conformance.member import Member
from regroup.conformance.scenes import (
    alone,
    awaiting_sync,
    disturbed,
    left_behind,
    stable,
)
from regroup.conformance.story import TWO_ASSIGNORS, Story, subscribed_to
from regroup.conformance.target import FOO
from regroup.protocol.errors import ErrorCode as E

OTHER_TOPIC = {"range": subscribed_to(FOO), "roundrobin": subscribed_to(FOO)}
OTHER_ORDER = {"roundrobin": TWO_ASSIGNORS["roundrobin"], "range": TWO_ASSIGNORS["range"]}


@case("join.unknown-member-id.nonexistent-group", 1)
async def stranger_with_an_id(tell: Story) -> None:
    """A group is created only for a member without an id; one that brings an id is unknown."""
    for instance in (None, "i1"):
        stranger = Member(tell, "stranger", instance=instance)
        answer = await stranger.asks_to_join(member_id="some-id")
        expect(answer, error=E.UNKNOWN_MEMBER_ID, member_id="some-id", generation_id=-1)
    await tell.is_in("Dead")


@case("join.member-id-required.first-request", 1)
async def newcomer_is_given_an_id(tell: Story) -> None:
    """Since v4 a dynamic newcomer is given an id and asked to come again; the group exists and is empty."""
    for version in range(4, 10):
        anna = Member(tell, "anna", client_id="c")
        answer = await anna.asks_to_join(version=version)
        expect(answer, error=E.MEMBER_ID_REQUIRED, generation_id=-1, leader="", members=[])
        that(answer.member_id.startswith("c-"), f"the id should begin with the client id: {answer.member_id}")
    await tell.becomes("Empty", members=0)


@case("join.member-id-required.not-before-v4", 1)
async def old_newcomer_is_let_in(tell: Story) -> None:
    """Up to v3 a newcomer is let in at its first request, and learns its id when the generation begins."""
    for version in range(4):
        tell.turns_to_group(f"v{version}")
        anna = Member(tell, "anna")
        answer = await anna.asks_to_join(version=version)
        expect(answer, error=E.NONE, generation_id=1, leader=answer.member_id)
        that(answer.member_id != "", "the member should have an id now")


@case("join.member-id-required.not-for-static", 1)
async def static_newcomer_is_let_in(tell: Story) -> None:
    """A static newcomer is let in at its first request, whatever the version."""
    for version in range(5, 10):
        tell.turns_to_group(f"v{version}")
        answer = await Member(tell, "anna", instance="i1").asks_to_join(version=version)
        expect(answer, error=E.NONE, generation_id=1, leader=answer.member_id)
        that(answer.member_id.startswith("i1-"), f"the id should begin with the instance id: {answer.member_id}")


@case("join.member-id-required.stable-group-undisturbed", 1)
async def giving_an_id_disturbs_nobody(tell: Story) -> None:
    """Handing out an id starts no rebalance."""
    anna = await alone(tell)
    expect(await Member(tell, "ben").asks_to_join(), error=E.MEMBER_ID_REQUIRED)
    await tell.is_in("Stable", members=1)
    expect(await anna.beats(), error=E.NONE)


@case("join.new-group.rejected-request-still-creates-group", 3)
async def refused_and_yet_created(tell: Story) -> None:
    """A first request that is refused for its protocols leaves an empty group behind."""
    answer = await Member(tell, "anna", protocol_type="").asks_to_join()
    expect(answer, error=E.INCONSISTENT_GROUP_PROTOCOL)
    await tell.becomes("Empty", members=0)


@case("join.empty-group.empty-protocol-type", 2)
async def no_protocol_type(tell: Story) -> None:
    """An empty group refuses a newcomer without a protocol type."""
    await left_behind(tell)
    answer = await Member(tell, "ben", protocol_type="").asks_to_join()
    expect(answer, error=E.INCONSISTENT_GROUP_PROTOCOL, member_id="")
    await tell.is_in("Empty")


@case("join.nonempty.protocol-type-mismatch", 1)
async def another_protocol_type(tell: Story) -> None:
    """A group of consumers takes in consumers only, and gives no id to others."""
    anna = await alone(tell)
    answer = await Member(tell, "ben", protocol_type="connect").asks_to_join()
    expect(answer, error=E.INCONSISTENT_GROUP_PROTOCOL, member_id="")
    await tell.is_in("Stable", members=1)
    expect(await anna.beats(), error=E.NONE)


@case("join.nonempty.no-common-protocol", 1)
async def no_assignor_in_common(tell: Story) -> None:
    """A newcomer must share an assignor with everyone who is there."""
    await alone(tell, protocols={"range": b"r"})
    answer = await Member(tell, "ben", protocols={"roundrobin": b"rr"}).asks_to_join()
    expect(answer, error=E.INCONSISTENT_GROUP_PROTOCOL, member_id="")
    await tell.is_in("Stable", members=1)


@case(
    "join.pending.with-instance-id",
    3,
    corrected="The catalogue does not say which member id stands in the answer: none, and no echo.",
)
async def pending_id_with_an_instance(tell: Story) -> None:
    """An id that was handed out to a dynamic member cannot be brought back by a static one."""
    ben = Member(tell, "ben")
    await ben.gets_an_id()
    ben.instance = "i1"
    expect(await ben.asks_to_join(), error=E.UNKNOWN_SERVER_ERROR, member_id="")


@case("join.unknown-member-id.existing-group", 1)
async def unknown_id_in_a_group(tell: Story) -> None:
    """An id that the group did not give is unknown, and changes nothing."""
    anna = await alone(tell)
    answer = await Member(tell, "ben").asks_to_join(member_id="other")
    expect(answer, error=E.UNKNOWN_MEMBER_ID, member_id="other", generation_id=-1)
    await tell.is_in("Stable", members=1)
    expect(await anna.beats(), error=E.NONE)


@case("join.empty-state.known-member", 2)
async def who_left_is_unknown(tell: Story) -> None:
    """Who left and comes back with the old id is unknown."""
    anna = await left_behind(tell)
    answer = await anna.asks_to_join()
    expect(answer, error=E.UNKNOWN_MEMBER_ID, member_id=anna.id, generation_id=-1)
    await tell.is_in("Empty")


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


@case("join.member-id-format", 2)
async def form_of_an_id(tell: Story) -> None:
    """An id is the client id, or the instance id of a static member, and a random UUID."""
    for instance, start in ((None, "c1-"), ("i1", "i1-")):
        answer = await Member(tell, "anna", client_id="c1", instance=instance).asks_to_join()
        parts = answer.member_id.removeprefix(start).split("-")
        that(answer.member_id.startswith(start), f"{answer.member_id} should begin with {start}")
        same("the lengths of the id's parts", [8, 4, 4, 4, 12], [len(each) for each in parts])


@case("join.response.leader-sees-all-members", 1)
async def leader_sees_the_silent_too(tell: Story) -> None:
    """The leader's list holds static members that stayed silent, with their metadata and instance ids."""
    anna, ben = await stable(tell, static=True, rebalance_timeout_ms=2000)
    carla = Member(tell, "carla", instance="i-carla", rebalance_timeout_ms=2000)
    knocking = await carla.knocks()
    answer = await ben.asks_to_join()
    expect(await knocking, error=E.NONE, generation_id=3)
    leader = answer if answer.leader == ben.id else await knocking
    that(leader.leader in (ben.id, carla.id), "the leader should be one that joined again")
    listed = {each.member_id: (each.group_instance_id, each.metadata) for each in leader.members}
    wanted = {each.id: (each.instance, each.protocols["range"]) for each in (anna, ben, carla)}
    same("members, instances and metadata", wanted, listed)
    await tell.is_in("CompletingRebalance", members=3)


@case("join.response.protocol-type-v7", 2)
async def protocol_type_in_the_answer(tell: Story) -> None:
    """Since v7 the answer names the protocol type; the name of the assignor was always there."""
    for version in range(10):
        tell.turns_to_group(f"v{version}")
        anna = Member(tell, "anna")
        if version >= 4:
            await anna.gets_an_id()
        answer = await anna.asks_to_join(version=version)
        expect(answer, error=E.NONE, protocol_name="range", protocol_type="consumer" if version >= 7 else None)


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


@case("join.sole-member-disjoint-protocols-rejected", 2)
async def lone_member_swaps_assignors(tell: Story) -> None:
    """Even a lone member cannot swap to assignors that it did not name before."""
    anna = await alone(tell, protocols={"range": b"r"})
    answer = await anna.asks_to_join(protocols={"roundrobin": b"rr"})
    expect(answer, error=E.INCONSISTENT_GROUP_PROTOCOL, member_id=anna.id)
    await tell.is_in("Stable", members=1)


@case("join.after-empty.protocol-type-can-change", 2)
async def empty_group_changes_its_type(tell: Story) -> None:
    """When everyone has left, the next member brings its own protocol type."""
    await left_behind(tell)
    worker = Member(tell, "worker", protocol_type="connect", protocols={"sessioned": b"s"})
    answer = await worker.asks_to_join(version=3)
    expect(answer, error=E.NONE, generation_id=3, protocol_name="sessioned")
    same("the group's protocol type", "connect", (await tell.describe()).protocol_type)
