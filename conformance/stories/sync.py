"""SyncGroup: the leader hands out the shares, and everyone gets one."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect
from regroup.conformance.harness.member import Member, leave, share_of
from regroup.conformance.harness.scenes import alone, awaiting_sync, awaiting_sync_alone, disturbed, left_behind, stable
from regroup.conformance.harness.story import Story
from regroup.protocol.errors import ErrorCode as E


@case("sync.empty-group", 1)
async def sync_in_an_empty_group(tell: Story) -> None:
    """Who left is unknown when it asks for its share."""
    anna = await left_behind(tell)
    expect(await anna.syncs(generation=2), error=E.UNKNOWN_MEMBER_ID)


@case("sync.unknown-member", 1)
async def stranger_syncs(tell: Story) -> None:
    """A stranger gets no share."""
    anna = await alone(tell)
    expect(await anna.syncs(member_id="other"), error=E.UNKNOWN_MEMBER_ID)
    await tell.is_in("Stable")


@case("sync.illegal-generation", 1)
async def sync_of_another_generation(tell: Story) -> None:
    """A share is of one generation only."""
    anna = await alone(tell)
    expect(await anna.syncs(generation=2), error=E.ILLEGAL_GENERATION)
    await tell.is_in("Stable")


@case("sync.protocol-type-mismatch", 1)
async def sync_with_another_type(tell: Story) -> None:
    """A SyncGroup that names another protocol type is refused, and does not count."""
    anna = await awaiting_sync_alone(tell)
    answer = await anna.syncs({anna.id: b"share"}, protocol_type="other")
    expect(answer, error=E.INCONSISTENT_GROUP_PROTOCOL, protocol_type=None, protocol_name=None, assignment=b"")
    await tell.is_in("CompletingRebalance")


@case("sync.protocol-name-mismatch", 1)
async def sync_with_another_assignor(tell: Story) -> None:
    """A SyncGroup that names another assignor than the chosen one is refused."""
    anna = await awaiting_sync_alone(tell)
    answer = await anna.syncs({anna.id: b"share"}, protocol_name="other")
    expect(answer, error=E.INCONSISTENT_GROUP_PROTOCOL, protocol_type=None, protocol_name=None, assignment=b"")
    await tell.is_in("CompletingRebalance")


@case("sync.protocol-fields-absent-before-v5", 1)
async def old_sync_names_no_protocol(tell: Story) -> None:
    """Up to v4 a SyncGroup names no protocol, and that fits any."""
    for version in range(5):
        tell.turns_to_group(f"v{version}")
        anna = await awaiting_sync_alone(tell)
        answer = await anna.syncs({anna.id: b"share"}, version=version)
        expect(answer, error=E.NONE, assignment=b"share")
        await tell.is_in("Stable")


@case("sync.response-protocol-fields-v5", 2)
async def sync_names_the_protocol(tell: Story) -> None:
    """Since v5 the answer names protocol type and assignor."""
    anna = await awaiting_sync_alone(tell)
    answer = await anna.syncs({anna.id: b"share"}, version=5)
    expect(answer, error=E.NONE, protocol_type="consumer", protocol_name="range", assignment=b"share")


@case("sync.preparing", 1)
async def sync_while_preparing(tell: Story) -> None:
    """While the next generation is being prepared nobody gets a share of the present one."""
    anna, ben, _, _ = await disturbed(tell)
    for each in (anna, ben):
        expect(await each.syncs(), error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    await tell.is_in("PreparingRebalance")


@case("sync.completing.leader-commits", 1)
async def leader_hands_out_shares(tell: Story) -> None:
    """Followers wait for the leader; with its SyncGroup everyone gets the share that it chose."""
    anna, ben = await awaiting_sync(tell)
    waiting = ben.syncs()
    await waiting.is_parked()
    expect(await anna.syncs({anna.id: b"A1", ben.id: b"A2"}), error=E.NONE, assignment=b"A1")
    expect(await waiting, error=E.NONE, assignment=b"A2")
    await tell.is_in("Stable", members=2)


@case("sync.leader-omits-members", 1)
async def leader_forgets_somebody(tell: Story) -> None:
    """Whom the leader forgets gets an empty share."""
    anna, ben = await awaiting_sync(tell)
    expect(await anna.syncs({anna.id: b"A1"}), error=E.NONE, assignment=b"A1")
    expect(await ben.syncs(), error=E.NONE, assignment=b"")
    await tell.is_in("Stable")


@case("sync.leader-adds-unknown-members", 3)
async def leader_invents_somebody(tell: Story) -> None:
    """A share for somebody who is not in the group is dropped."""
    anna, ben = await awaiting_sync(tell)
    shares = {anna.id: b"A1", ben.id: b"A2", "ghost": b"X"}
    expect(await anna.syncs(shares), error=E.NONE, assignment=b"A1")
    expect(await ben.syncs(), error=E.NONE, assignment=b"A2")
    await tell.is_in("Stable", members=2)


@case("sync.stable.leader-again", 2)
async def leader_hands_out_again(tell: Story) -> None:
    """Once the group is stable the leader cannot hand out other shares; it is told its own."""
    anna, ben = await stable(tell)
    answer = await anna.syncs({anna.id: b"NEW1", ben.id: b"NEW2"})
    expect(answer, error=E.NONE, assignment=share_of(anna))
    expect(await ben.syncs(), error=E.NONE, assignment=share_of(ben))


@case("sync.duplicate-follower-request", 3)
async def follower_asks_twice(tell: Story) -> None:
    """A follower that asks a second time is answered there; its first request is never answered."""
    anna, ben = await awaiting_sync(tell)
    first = ben.syncs()
    await first.is_parked()
    second = ben.syncs()
    await second.is_parked()
    await anna.syncs({anna.id: b"A1", ben.id: b"A2"})
    expect(await second, error=E.NONE, assignment=b"A2")
    await first.is_parked()


@case("sync.rebalance-before-commit", 2)
async def join_right_after_the_leaders_sync(tell: Story) -> None:
    """A newcomer right behind the leader's SyncGroup finds shares given or refused, and a group that rebalances."""
    anna, ben = await awaiting_sync(tell)
    sync, knocking = anna.syncs({anna.id: b"A1", ben.id: b"A2"}), Member(tell, "carla").asks_to_join(version=3)
    answer = await sync
    expected = b"" if answer.error_code == E.REBALANCE_IN_PROGRESS else b"A1"
    expect(answer, assignment=expected)
    await knocking.is_parked()
    await tell.is_in("PreparingRebalance", members=3)
    expect(await ben.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("sync.fenced-static", 1)
async def replaced_member_syncs(tell: Story) -> None:
    """A static member that another one has replaced is fenced when it asks for its share."""
    _, ben = await stable(tell, static=True)
    expect(await Member(tell, "ben's successor", instance=ben.instance).asks_to_join(), error=E.NONE)
    expect(await ben.syncs(), error=E.FENCED_INSTANCE_ID)


@case("sync.replaced-static-without-instance-id", 2)
async def replaced_member_hides_its_instance(tell: Story) -> None:
    """A static member that was replaced and does not name its instance is simply unknown."""
    anna, _ = await stable(tell, static=True)
    expect(await Member(tell, "anna's successor", instance=anna.instance).asks_to_join(), error=E.NONE)
    anna.instance = None
    expect(await anna.syncs(), error=E.UNKNOWN_MEMBER_ID)


@case("sync.rejoin-aborts-parked-syncs", 1)
async def leaving_aborts_waiting_syncs(tell: Story) -> None:
    """Whatever starts a rebalance sends those away who wait for their shares."""
    anna, ben, carla = await awaiting_sync(tell, size=3)
    waiting = ben.syncs()
    await waiting.is_parked()
    await leave(tell, carla)
    expect(await waiting, error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    await tell.is_in("PreparingRebalance", members=2)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)
