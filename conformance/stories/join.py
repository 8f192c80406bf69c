"""JoinGroup: who is let in, under which id, and what it is told."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, same, that
from regroup.conformance.harness.member import Member
from regroup.conformance.harness.scenes import (
    alone,
    left_behind,
    stable,
)
from regroup.conformance.harness.story import TWO_ASSIGNORS, Story, subscribed_to
from regroup.conformance.harness.target import FOO
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
