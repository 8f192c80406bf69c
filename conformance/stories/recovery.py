"""What is left of a group when its coordinator goes down and another one (or the same) takes over."""

from regroup.conformance.harness.cases import LEFT_IN_PEACE, case
from regroup.conformance.harness.expect import codes_are, every_partition, expect, one_of, same
from regroup.conformance.harness.member import Member, share_of
from regroup.conformance.harness.offsets import committed_outside, forgets, stands_at
from regroup.conformance.harness.scenes import alone, awaiting_sync, disturbed, left_behind, stable
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import BAR, FOO
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DeleteGroupsRequest, DeleteGroupsResponse

LONG_MS = 120_000
"""Sessions outlast the restart."""


@case("recovery.stable-group", 1, restarts=True)
async def stable_group_survives(tell: Story) -> None:
    """A stable group goes on as if nothing had happened: same generation, members, shares."""
    anna, ben = await stable(tell, session_timeout_ms=LONG_MS)
    await tell.coordinator_restarts()
    group = await tell.describe()
    shown = (group.group_state, group.protocol_type, group.protocol_data)
    same("the group", ("Stable", "consumer", "range"), shown)
    shares = {each.member_id: each.member_assignment for each in group.members}
    same("members and shares", {anna.id: share_of(anna), ben.id: share_of(ben)}, shares)
    for each in (anna, ben):
        expect(await each.beats(), error=E.NONE)


@case("recovery.other-assignors-forgotten", 2, restarts=True)
async def only_the_chosen_assignor_is_stored(tell: Story) -> None:
    """Of a member's assignors only the chosen one is stored: the same list as before counts as a change now."""
    _, ben = await stable(tell, session_timeout_ms=LONG_MS)
    await tell.coordinator_restarts()
    await ben.asks_to_join().is_parked()
    await tell.is_in("PreparingRebalance", members=2)


@case("leader.restored-from-log", 2, restarts=True)
async def leader_survives(tell: Story) -> None:
    """The leader is the leader still: its JoinGroup starts a rebalance, a follower's does not."""
    anna, ben = await stable(tell, session_timeout_ms=LONG_MS, protocols={"range": b"r"})
    await tell.coordinator_restarts()
    expect(await ben.asks_to_join(), error=E.NONE, generation_id=2, leader=anna.id)
    await anna.asks_to_join().is_parked()
    await tell.is_in("PreparingRebalance", members=2)


@case("recovery.empty-group", 1, restarts=True)
async def empty_group_survives(tell: Story) -> None:
    """An empty group keeps its generation and its protocol type."""
    await left_behind(tell)
    await committed_outside(tell, {(FOO, 0): 7})
    await tell.coordinator_restarts()
    group = await tell.describe()
    same("the group", ("Empty", "consumer", []), (group.group_state, group.protocol_type, group.members))
    await stands_at(tell, (FOO, 0), 7)
    expect(await Member(tell, "ben").joins(), error=E.NONE, generation_id=3)


@case("recovery.rebalance-in-progress-lost", 1, restarts=True)
async def rebalance_is_forgotten(tell: Story) -> None:
    """A rebalance that was under way is forgotten: the group is stable in the last generation that was stored."""
    anna, ben = await stable(tell, session_timeout_ms=LONG_MS, protocols={"range": b"r"})
    carla = Member(tell, "carla", session_timeout_ms=LONG_MS, protocols={"range": b"r"})
    await carla.knocks()
    await tell.coordinator_restarts()
    await tell.is_in("Stable", members=2)
    expect(await carla.asks_to_join(), error=E.UNKNOWN_MEMBER_ID)
    expect(await ben.asks_to_join(), error=E.NONE, generation_id=2, leader=anna.id)
    await anna.asks_to_join().is_parked()
    await tell.is_in("PreparingRebalance", members=2)


@case("recovery.completing-lost", 1, restarts=True)
async def generation_without_shares_is_forgotten(tell: Story) -> None:
    """A generation whose shares were never handed out is forgotten, and its number is used again."""
    anna, ben = await awaiting_sync(tell, session_timeout_ms=LONG_MS)
    await tell.coordinator_restarts()
    await tell.is_in("Stable", members=1)
    expect(await anna.syncs({anna.id: b"A"}), error=E.ILLEGAL_GENERATION)
    expect(await ben.syncs(), error=E.UNKNOWN_MEMBER_ID)
    expect(await anna.beats(generation=1), error=E.NONE)
    expect(await anna.asks_to_join(), error=E.NONE, generation_id=2)


@case("recovery.group-tombstone", 1, restarts=True)
async def deleted_group_stays_deleted(tell: Story) -> None:
    """A group that was deleted does not come back."""
    await left_behind(tell)
    await committed_outside(tell, {(FOO, 0): 7})
    answer = await tell.ask(DeleteGroupsRequest(groups_names=[tell.group]), DeleteGroupsResponse)
    same("the code", E.NONE, answer.results[0].error_code)
    await tell.coordinator_restarts()
    await tell.is_in("Dead")
    await stands_at(tell, (FOO, 0), -1)


@case("recovery.offsets-without-group", 1, restarts=True)
async def offsets_survive(tell: Story) -> None:
    """A group of offsets only comes back as an empty group without a protocol type."""
    await committed_outside(tell, {(FOO, 0): 7})
    await tell.coordinator_restarts()
    group = await tell.describe()
    same("the group", ("Empty", "", []), (group.group_state, group.protocol_type, group.members))
    await stands_at(tell, (FOO, 0), 7)
    expect(await Member(tell, "anna").joins(), error=E.NONE, generation_id=1)


@case("recovery.static-members", 2, restarts=True)
async def static_members_survive(tell: Story) -> None:
    """Static members keep their instance ids: the old member id goes on, a restarted process replaces it."""
    anna, ben = await stable(tell, static=True, session_timeout_ms=LONG_MS)
    await tell.coordinator_restarts()
    expect(await anna.beats(), error=E.NONE)
    heir = Member(tell, "ben's successor", instance=ben.instance, protocols={"range": ben.protocols["range"]})
    expect(await heir.asks_to_join(), error=E.NONE, generation_id=2, leader=anna.id)
    expect(await heir.syncs(), error=E.NONE, assignment=share_of(ben))
    expect(await ben.beats(), error=E.FENCED_INSTANCE_ID)


@case("recovery.unload-answers-parked-requests", 1, restarts=True)
async def parked_requests_end(tell: Story) -> None:
    """Whoever waits in JoinGroup or SyncGroup is sent away with code 16, or loses the connection."""
    _, _, _, knocking = await disturbed(tell)
    tell.turns_to_group("sync")
    _, ben = await awaiting_sync(tell)
    waiting = ben.syncs()
    await waiting.is_parked()
    await tell.coordinator_restarts(hanging_up=False)
    for each in (knocking, waiting):
        if (answer := await each.or_lost()) is not None:
            one_of("the code", (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE), answer.error_code)


@case("recovery.subscribed-topics-recomputed", 2, restarts=True)
async def subscriptions_survive(tell: Story) -> None:
    """The topics that a group reads are known again."""
    await committed_outside(tell, {(FOO, 0): 1, (BAR, 0): 2})
    await alone(tell, session_timeout_ms=LONG_MS)
    await tell.coordinator_restarts()
    answer = await forgets(tell, (FOO, 0), (BAR, 0))
    codes_are(answer, {(FOO, 0): E.NONE, (BAR, 0): E.GROUP_SUBSCRIBED_TO_TOPIC})


@case("recovery.pending-ids-forgotten", 2, needs=LEFT_IN_PEACE, restarts=True)
async def pending_ids_are_forgotten(tell: Story) -> None:
    """Ids that were handed out and did not come back are forgotten."""
    anna = await alone(tell, session_timeout_ms=LONG_MS)
    ben = Member(tell, "ben", session_timeout_ms=LONG_MS)
    await ben.gets_an_id()
    await tell.coordinator_restarts()
    expect(await ben.asks_to_join(), error=E.UNKNOWN_MEMBER_ID)
    every_partition(await anna.commits({(FOO, 0): 1}), E.NONE)
