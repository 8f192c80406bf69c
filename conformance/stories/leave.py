"""LeaveGroup: going of one's own accord, or being sent."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, left_with, same
from regroup.conformance.harness.member import Member, leave, share_out
from regroup.conformance.harness.scenes import alone, awaiting_sync, disturbed, left_behind, stable
from regroup.conformance.harness.story import Story
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import MemberIdentity


@case("leave.unknown-group.v3", 1)
async def leave_no_group(tell: Story) -> None:
    """Since v3 each member has its own code, and the request itself is fine."""
    for version in range(3, 6):
        answer = await leave(tell, MemberIdentity(member_id="m1"), version=version)
        left_with(answer, E.UNKNOWN_MEMBER_ID)
        same("the member in the answer", "m1", answer.members[0].member_id)


@case("leave.unknown-group.v0-v2", 2)
async def leave_no_group_the_old_way(tell: Story) -> None:
    """Up to v2 the one code of the answer is the member's."""
    for version in range(3):
        expect(await leave(tell, MemberIdentity(member_id="m1"), version=version), error=E.UNKNOWN_MEMBER_ID)


@case("leave.unknown-member", 1)
async def stranger_leaves(tell: Story) -> None:
    """A stranger who leaves disturbs nobody."""
    anna = await alone(tell)
    left_with(await leave(tell, MemberIdentity(member_id="other")), E.UNKNOWN_MEMBER_ID)
    await tell.is_in("Stable", members=1)
    expect(await anna.beats(), error=E.NONE)


@case("leave.stable.not-last", 1)
async def one_of_two_leaves(tell: Story) -> None:
    """When one of two leaves, the other is asked to join again, in the same generation still."""
    anna, ben = await stable(tell)
    left_with(await ben.leaves(), E.NONE)
    await tell.is_in("PreparingRebalance", members=1)
    expect(await anna.beats(generation=2), error=E.REBALANCE_IN_PROGRESS)
    expect(await ben.beats(), error=E.UNKNOWN_MEMBER_ID)


@case("leave.stable.last-member", 1)
async def last_one_leaves(tell: Story) -> None:
    """When the last member leaves, the group is empty, and that counts as a generation."""
    for version in range(6):
        tell.turns_to_group(f"v{version}")
        anna = await alone(tell)
        expect(await anna.leaves(version=version), error=E.NONE)
        await tell.is_in("Empty", members=0)
    ben = Member(tell, "ben")
    expect(await ben.joins(), error=E.NONE, generation_id=3)


@case("leave.preparing.completes-join", 1)
async def leaving_completes_the_join(tell: Story) -> None:
    """When the only one who is missing leaves, the generation begins."""
    anna, ben, _, knocking = await disturbed(tell)
    waiting = anna.asks_to_join()
    await waiting.is_parked()
    left_with(await ben.leaves(), E.NONE)
    for each in (waiting, knocking):
        expect(await each, error=E.NONE, generation_id=3, leader=anna.id)
    await tell.is_in("CompletingRebalance", members=2)


@case("leave.preparing.not-everyone-joined", 2)
async def leaving_while_another_is_missing(tell: Story) -> None:
    """While somebody else is missing too, the wait goes on."""
    _, ben, _, knocking = await disturbed(tell)
    left_with(await ben.leaves(), E.NONE)
    await knocking.is_parked()
    await tell.is_in("PreparingRebalance", members=2)


@case(
    "leave.pending-member",
    2,
    corrected="Giving back a pending id disturbs a stable group: it starts a rebalance as if a member had left. "
    "The catalogue said that the group stays Stable.",
)
async def pending_id_is_given_back(tell: Story) -> None:
    """An id that was handed out can be given back, and the group rebalances as if a member had left."""
    anna = await alone(tell)
    ben = Member(tell, "ben")
    await ben.gets_an_id()
    left_with(await ben.leaves(), E.NONE)
    await tell.is_in("PreparingRebalance", members=1)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)
    expect(await anna.asks_to_join(), error=E.NONE, generation_id=2)
    expect(await ben.asks_to_join(), error=E.UNKNOWN_MEMBER_ID)


@case(
    "leave.pending-member-empty-group",
    3,
    corrected="The catalogue does not have it (a random course found it): unlike a Stable group, an Empty one stays as "
    "it is when a pending id is given back.",
)
async def pending_id_of_an_empty_group_is_given_back(tell: Story) -> None:
    """An id that is given back before anybody has joined changes nothing; the first generation is still 1."""
    anna = Member(tell, "anna")
    await anna.gets_an_id()
    left_with(await anna.leaves(), E.NONE)
    await tell.is_in("Empty")
    expect(await Member(tell, "ben").joins(), error=E.NONE, generation_id=1)


@case("leave.pending-member-completes-join", 2)
async def giving_an_id_back_completes_the_join(tell: Story) -> None:
    """When everyone waits for one pending id only, giving it back begins the generation."""
    anna, ben, _, knocking = await disturbed(tell)
    dora = Member(tell, "dora")
    await dora.gets_an_id()
    waiting = [knocking, anna.asks_to_join(), ben.asks_to_join()]
    await waiting[-1].is_parked()
    left_with(await dora.leaves(), E.NONE)
    for each in waiting:
        expect(await each, error=E.NONE, generation_id=3)
    await tell.is_in("CompletingRebalance", members=3)


@case(
    "leave.completing.parked-sync-unanswered",
    3,
    corrected="The catalogue does not have it (a random course found it): no answer ever comes, not even code 25.",
)
async def leaving_while_waiting_for_a_share(tell: Story) -> None:
    """A SyncGroup that waits is never answered once its member has left; the others are sent away with code 27."""
    anna, ben, carla = await awaiting_sync(tell, size=3)
    waiting, others = ben.syncs(), carla.syncs()
    await waiting.is_parked()
    left_with(await ben.leaves(), E.NONE)
    expect(await others, error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    await tell.is_in("PreparingRebalance", members=2)
    rejoining = [each.asks_to_join() for each in (anna, carla)]
    for each in rejoining:
        expect(await each, error=E.NONE, generation_id=3)
    await share_out(anna, carla)
    await waiting.is_parked()


@case("leave.batch.mixed", 1)
async def several_leave_at_once(tell: Story) -> None:
    """A member, a pending id and a stranger in one request: a code for each, in the order of the request."""
    anna, ben, _ = await stable(tell, size=3)
    dora = Member(tell, "dora")
    await dora.gets_an_id()
    answer = await leave(tell, ben, dora, MemberIdentity(member_id="ghost"))
    left_with(answer, E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID)
    same("the members in the answer", [ben.id, dora.id, "ghost"], [each.member_id for each in answer.members])
    await tell.is_in("PreparingRebalance", members=2)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("leave.batch.duplicate-entry", 3)
async def named_twice(tell: Story) -> None:
    """Who is named twice leaves once, and is unknown the second time."""
    _, ben = await stable(tell)
    left_with(await leave(tell, ben, ben), E.NONE, E.UNKNOWN_MEMBER_ID)
    await tell.is_in("PreparingRebalance", members=1)


@case("leave.batch.all-members", 2)
async def everyone_leaves_at_once(tell: Story) -> None:
    """When all leave in one request the group is empty, one generation later."""
    anna, ben = await stable(tell)
    left_with(await leave(tell, anna, ben), E.NONE, E.NONE)
    await tell.is_in("Empty", members=0)
    carla = Member(tell, "carla")
    expect(await carla.joins(), error=E.NONE, generation_id=4)


@case("leave.batch.empty-list", 3)
async def nobody_leaves(tell: Story) -> None:
    """A request that names nobody is fine, and nothing happens."""
    anna = await alone(tell)
    left_with(await leave(tell))
    await tell.is_in("Stable", members=1)
    expect(await anna.beats(), error=E.NONE)


@case("leave.static.by-instance-only", 1)
async def removed_by_instance(tell: Story) -> None:
    """An administrator removes a static member by its instance id alone; the answer echoes the empty member id."""
    for version in range(3, 6):
        tell.turns_to_group(f"v{version}")
        anna, ben = await stable(tell, static=True)
        answer = await leave(tell, MemberIdentity(member_id="", group_instance_id=ben.instance), version=version)
        left_with(answer, E.NONE)
        came = (answer.members[0].member_id, answer.members[0].group_instance_id)
        same("the member in the answer", ("", ben.instance), came)
        await tell.is_in("PreparingRebalance", members=1)
        expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("leave.static.unknown-instance", 1)
async def unknown_instance_leaves(tell: Story) -> None:
    """An instance id that nobody has is unknown, with or without a known member id."""
    anna, _ = await stable(tell, static=True)
    answer = await leave(
        tell,
        MemberIdentity(member_id="", group_instance_id="nope"),
        MemberIdentity(member_id=anna.id, group_instance_id="nope"),
    )
    left_with(answer, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID)
    await tell.is_in("Stable", members=2)


@case("leave.static.batch-valid", 2)
async def all_instances_removed(tell: Story) -> None:
    """All static members removed by their instance ids: the group is empty."""
    members = await stable(tell, static=True)
    leaving = [MemberIdentity(member_id="", group_instance_id=each.instance) for each in members]
    left_with(await leave(tell, *leaving), E.NONE, E.NONE)
    await tell.is_in("Empty", members=0)


@case("leave.static.by-member-id-only", 3)
async def static_member_leaves_by_its_member_id(tell: Story) -> None:
    """A static member may leave by its member id alone, and its instance id is free again."""
    _, ben = await stable(tell, static=True)
    left_with(await leave(tell, MemberIdentity(member_id=ben.id)), E.NONE)
    await tell.is_in("PreparingRebalance", members=1)
    expect(await ben.beats(), error=E.UNKNOWN_MEMBER_ID)


@case("leave.empty-group", 2)
async def leaving_twice(tell: Story) -> None:
    """Who has left cannot leave again."""
    anna = await left_behind(tell)
    left_with(await anna.leaves(), E.UNKNOWN_MEMBER_ID)
    await tell.is_in("Empty")
