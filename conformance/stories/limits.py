"""`group.max.size`: how many a group takes in."""

from regroup.conformance.harness.cases import Need, case
from regroup.conformance.harness.expect import expect, left_with, same
from regroup.conformance.harness.member import Member, share_out
from regroup.conformance.harness.pending import Waiting
from regroup.conformance.harness.scenes import NAMES, awaiting_sync, stable
from regroup.conformance.harness.story import Story
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import JoinGroupResponse

SMALL = {"group.max.size": Need(at_least=2, at_most=11)}
SMALL_AND_DELAYED = {**SMALL, "group.initial.rebalance.delay.ms": Need(at_least=1000)}


async def full_and_waiting(
    tell: Story, *, static: bool = False
) -> tuple[list[Member], list[Waiting[JoinGroupResponse]]]:
    """A new group as full as it may be; everyone waits for the first generation."""
    names = NAMES[: tell.setting("group.max.size")]
    members = [Member(tell, name, instance=f"i-{name}" if static else None) for name in names]
    for each in members:
        await each.gets_an_id()
    waiting = [each.asks_to_join() for each in members]
    await tell.becomes("PreparingRebalance", members=len(members))
    return members, waiting


@case("limits.stable-full.new-member", 1, needs=SMALL)
async def full_group_refuses_a_newcomer(tell: Story) -> None:
    """A full group refuses a newcomer at once, and gives it no id."""
    size = tell.setting("group.max.size")
    anna, *_ = await stable(tell, size=size)
    answer = await Member(tell, "one too many").asks_to_join()
    expect(answer, error=E.GROUP_MAX_SIZE_REACHED, member_id="", generation_id=-1)
    await tell.is_in("Stable", members=size)
    expect(await anna.beats(), error=E.NONE)


@case("limits.empty-group-unlimited-pending", 2, needs=SMALL)
async def ids_are_not_counted(tell: Story) -> None:
    """An empty group hands out more ids than it has room for."""
    for number in range(tell.setting("group.max.size") + 1):
        expect(await Member(tell, f"newcomer {number}").asks_to_join(), error=E.MEMBER_ID_REQUIRED)


@case("limits.preparing-counts-parked", 1, needs=SMALL_AND_DELAYED)
async def the_last_one_finds_no_room(tell: Story) -> None:
    """While a group prepares, those who wait count: one id too many comes back in vain."""
    late = Member(tell, "one too many")
    await late.gets_an_id()
    await full_and_waiting(tell)
    expect(await late.asks_to_join(), error=E.GROUP_MAX_SIZE_REACHED, member_id="")
    await tell.is_in("PreparingRebalance", members=tell.setting("group.max.size"))


@case("limits.preparing.parked-member-may-resend", 2, needs=SMALL_AND_DELAYED)
async def who_waits_may_ask_again(tell: Story) -> None:
    """Who is in already may ask again in a full group."""
    members, _ = await full_and_waiting(tell)
    again = members[0].asks_to_join()
    await again.is_parked()
    expect(await again, error=E.NONE, generation_id=1)


@case("limits.completing.existing-accepted", 2, needs=SMALL)
async def member_of_a_full_group_asks_again(tell: Story) -> None:
    """A member of a full group that lost its answer gets it again."""
    _, *others = await awaiting_sync(tell, size=tell.setting("group.max.size"))
    expect(await others[-1].asks_to_join(), error=E.NONE, generation_id=2)


@case("limits.stable-full.pending-dropped", 3, needs=SMALL)
async def id_comes_back_too_late(tell: Story) -> None:
    """An id that was handed out while there was room is worth nothing once the group is full, and is forgotten."""
    members, late, last, waiting = await one_place_and_two_who_want_it(tell)
    for each in waiting:
        await each
    await share_out(*members, last)
    expect(await late.asks_to_join(), error=E.GROUP_MAX_SIZE_REACHED, member_id="")
    await tell.is_in("Stable", members=tell.setting("group.max.size"))
    left_with(await late.leaves(), E.UNKNOWN_MEMBER_ID)


@case(
    "limits.preparing.refused-pending-completes-nothing",
    3,
    needs=SMALL,
    corrected="The catalogue does not have it: the refused id is forgotten, and nobody looks whether all are here now.",
)
async def refusal_of_the_last_pending_id(tell: Story) -> None:
    """When the only one who is missing is refused for want of room, the others wait out the rebalance timeout."""
    _, late, _, waiting = await one_place_and_two_who_want_it(tell)
    await waiting[-1].is_parked()
    expect(await late.asks_to_join(), error=E.GROUP_MAX_SIZE_REACHED, member_id="")
    for each in waiting:
        await each.is_parked()
    same("generations", {3}, {(await each).generation_id for each in waiting})


async def one_place_and_two_who_want_it(
    tell: Story,
) -> tuple[list[Member], Member, Member, list[Waiting[JoinGroupResponse]]]:
    """One is missing to a full group: a late one was given an id, and a static one has taken the place since."""
    members = await stable(tell, size=tell.setting("group.max.size") - 1, rebalance_timeout_ms=2000)
    late = Member(tell, "late")
    await late.gets_an_id()
    last = Member(tell, "last", instance="i-last", rebalance_timeout_ms=2000)
    knocking = last.asks_to_join()
    await tell.becomes("PreparingRebalance", members=tell.setting("group.max.size"))
    return members, late, last, [knocking, *(each.asks_to_join() for each in members)]


@case("limits.static-members", 2, needs=SMALL_AND_DELAYED)
async def static_members_count_too(tell: Story) -> None:
    """Static members fill a group like others."""
    await full_and_waiting(tell, static=True)
    late = Member(tell, "one too many", instance="i-late")
    expect(await late.asks_to_join(), error=E.GROUP_MAX_SIZE_REACHED)
    await tell.is_in("PreparingRebalance", members=tell.setting("group.max.size"))


@case("limits.default-unbounded", 3, needs={"group.max.size": Need(at_least=2147483647)})
async def no_limit_by_default(tell: Story) -> None:
    """By default there is no limit worth the name."""
    members = await stable(tell, size=12)
    await tell.is_in("Stable", members=12)
    await share_out(*members)
