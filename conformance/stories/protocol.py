"""Which assignor the members agree on."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import codes_are, expect, left_with, one_of
from regroup.conformance.harness.member import Member, Protocols
from regroup.conformance.harness.offsets import committed_outside, forgets
from regroup.conformance.harness.scenes import alone, left_behind, let_in, stable
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import FOO
from regroup.protocol.errors import ErrorCode as E


async def agreed(tell: Story, annas: Protocols, bens: Protocols) -> str | None:
    """What Anna and Ben, with these lists, agree on."""
    anna = await alone(tell, protocols=annas)
    knocking = await Member(tell, "ben", protocols=bens).knocks()
    expect(await anna.asks_to_join(), error=E.NONE, generation_id=2)
    return (await knocking).protocol_name


@case("protocol.only-common-candidates", 1)
async def only_common_assignors_count(tell: Story) -> None:
    """Only an assignor that all members know can be chosen, whatever they like better."""
    chosen = await agreed(tell, {"range": b"", "roundrobin": b""}, {"roundrobin": b"", "foo": b""})
    one_of("the assignor", ("roundrobin",), chosen)


@case("protocol.tie-unspecified", 2)
async def tie_of_two_assignors(tell: Story) -> None:
    """When the votes are even, either may be chosen, but one it is."""
    chosen = await agreed(tell, {"range": b"", "roundrobin": b""}, {"roundrobin": b"", "range": b""})
    one_of("the assignor", ("range", "roundrobin"), chosen)


@case("protocol.joiner-may-narrow", 2)
async def newcomer_narrows_the_choice(tell: Story) -> None:
    """A newcomer that shares one assignor only is let in, and the group changes to that."""
    anna, ben = await stable(tell)
    knocking = Member(tell, "carla", protocols={"roundrobin": b"rr"}).asks_to_join(version=3)
    await knocking.is_parked()
    waiting = [anna.asks_to_join(), ben.asks_to_join()]
    for each in (*waiting, knocking):
        expect(await each, error=E.NONE, generation_id=3, protocol_name="roundrobin")


@case("protocol.leaver-may-widen", 3)
async def leaver_widens_the_choice(tell: Story) -> None:
    """When the one leaves that knew one assignor only, the others' lists count in full again."""
    anna = await alone(tell, protocols={"range": b"", "sticky": b""})
    ben = Member(tell, "ben", protocols={"range": b""})
    await let_in(anna, ben)
    expect(await Member(tell, "carla", protocols={"sticky": b""}).asks_to_join(), error=E.INCONSISTENT_GROUP_PROTOCOL)
    left_with(await ben.leaves(), E.NONE)
    expect(await anna.asks_to_join(), error=E.NONE, protocol_name="range")
    expect(await Member(tell, "dora", protocols={"sticky": b""}).asks_to_join(), error=E.MEMBER_ID_REQUIRED)


@case("protocol.empty-group-accepts-anything", 2)
async def empty_group_takes_any_assignor(tell: Story) -> None:
    """An empty group takes in a member with any assignor."""
    await left_behind(tell)
    answer = await Member(tell, "ben", protocols={"anything": b""}).asks_to_join(version=3)
    expect(answer, error=E.NONE, generation_id=3, protocol_name="anything")


@case("protocol.unparsable-metadata", 2)
async def subscription_that_nobody_can_read(tell: Story) -> None:
    """Members may send bytes that are no subscription; then every topic counts as subscribed."""
    await committed_outside(tell, {(FOO, 0): 1})
    await alone(tell, protocols={"range": b"\xff"})
    codes_are(await forgets(tell, (FOO, 0)), {(FOO, 0): E.GROUP_SUBSCRIBED_TO_TOPIC})


@case("protocol.non-consumer-type-opaque", 3)
async def bytes_of_other_types_are_not_read(tell: Story) -> None:
    """Members of another protocol type may send any bytes; nobody looks inside."""
    anna = await alone(tell, protocol_type="connect", protocols={"range": b"\xff"})
    await tell.is_in("Stable", members=1)
    expect(await forgets(tell, (FOO, 0)), error=E.NON_EMPTY_GROUP)
    expect(await anna.beats(), error=E.NONE)
