"""How long a rebalance waits: for members to join again, and for their SyncGroup."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, left_with, same, that, took
from regroup.conformance.harness.member import Member, leave, share_out
from regroup.conformance.harness.scenes import alone, awaiting_sync, disturbed, let_in, stable
from regroup.conformance.harness.story import Story
from regroup.protocol.errors import ErrorCode as E


@case("timeout.rebalance.expels-silent-dynamic-members", 1)
async def who_does_not_join_again_is_out(tell: Story) -> None:
    """Members that beat but do not join again are expelled when the rebalance timeout is over."""
    anna, ben, carla, knocking = await disturbed(tell, rebalance_timeout_ms=2000)
    while not knocking.answered:
        await anna.beats()
        await ben.beats()
        await tell.passes(0.2)
    answer = await knocking
    expect(answer, error=E.NONE, generation_id=3, leader=carla.id)
    same("the number of members", 1, len(answer.members))
    for each in (anna, ben):
        expect(await each.beats(), error=E.UNKNOWN_MEMBER_ID)
    await tell.is_in("CompletingRebalance", members=1)


@case("timeout.rebalance.keeps-silent-static-members", 1)
async def silent_static_members_stay(tell: Story) -> None:
    """A static member that does not join again in time keeps its place."""
    anna, ben = await stable(tell, static=True, rebalance_timeout_ms=2000)
    carla = Member(tell, "carla", rebalance_timeout_ms=2000)
    knocking = await carla.knocks()
    answer = await anna.asks_to_join()
    expect(answer, error=E.NONE, generation_id=3, leader=anna.id)
    expect(await knocking, error=E.NONE, generation_id=3)
    listed = sorted(each.member_id for each in answer.members)
    same("the members that the leader sees", sorted([anna.id, ben.id, carla.id]), listed)
    expect(await ben.beats(generation=3), error=E.NONE)


@case("timeout.rebalance.nobody-rejoined-only-static-left", 1)
async def nobody_joins_again(tell: Story) -> None:
    """When only silent static members are left, the group waits on, in the same generation."""
    anna, ben, carla = await stable(tell, size=3, static=True, rebalance_timeout_ms=2000)
    left_with(await carla.leaves(), E.NONE)
    await tell.passes(4.5)
    await tell.is_in("PreparingRebalance", members=2)
    waiting = [each.asks_to_join() for each in (anna, ben)]
    for each in waiting:
        expect(await each, error=E.NONE, generation_id=3)


@case("timeout.rebalance.is-max-of-members", 1)
async def longest_timeout_counts(tell: Story) -> None:
    """The group waits for the longest rebalance timeout of its members, not for the newcomer's."""
    await alone(tell, rebalance_timeout_ms=3000)
    knocking = await Member(tell, "ben", rebalance_timeout_ms=500).knocks()
    expect(await knocking, error=E.NONE, generation_id=2)
    took("the rebalance", knocking.took_seconds, 3, 3)


@case("timeout.rebalance.deadline-not-extended", 2)
async def later_newcomers_do_not_extend(tell: Story) -> None:
    """Who comes later does not push the deadline of a running rebalance."""
    _, _, _, knocking = await disturbed(tell, rebalance_timeout_ms=3000)
    await tell.passes(1.5)
    late = Member(tell, "dora", rebalance_timeout_ms=3000).asks_to_join(version=3)
    expect(await knocking, error=E.NONE, generation_id=3)
    expect(await late, error=E.NONE, generation_id=3)
    took("the rebalance", knocking.took_seconds, 3, 3)
    that(late.took_seconds < 2.9, "the late newcomer should have waited for the rest of the time only")


@case("timeout.rebalance.session-expiry-completes-join", 2)
async def expiry_completes_the_join(tell: Story) -> None:
    """When the one that is missing is expelled for silence, the generation begins."""
    short = tell.short_session_ms
    await alone(tell, session_timeout_ms=short)
    ben = Member(tell, "ben")
    knocking = await ben.knocks()
    answer = await knocking.within(short / 1000 + 10)
    expect(answer, error=E.NONE, generation_id=2, leader=ben.id)
    await tell.is_in("CompletingRebalance", members=1)


@case("timeout.sync.nobody-syncs", 1)
async def nobody_fetches_a_share(tell: Story) -> None:
    """Members that beat but never sync are expelled when the rebalance timeout is over."""
    members = await awaiting_sync(tell, size=3, rebalance_timeout_ms=2000)
    await tell.until(lambda: beaten_out(tell, members))
    for each in members:
        expect(await each.beats(), error=E.UNKNOWN_MEMBER_ID)


async def beaten_out(tell: Story, members: list[Member]) -> None:
    """All beat; Differs until the group is empty all the same."""
    for each in members:
        await each.beats()
    await tell.is_in("Empty", members=0)


@case("timeout.sync.followers-missing", 1)
async def followers_never_sync(tell: Story) -> None:
    """Followers that never fetch their shares are expelled, although the group is stable already."""
    anna, ben, carla = await awaiting_sync(tell, size=3, rebalance_timeout_ms=2000)
    expect(await anna.syncs({anna.id: b"A"}), error=E.NONE)
    await tell.is_in("Stable", members=3)
    await tell.becomes("PreparingRebalance", members=1)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)
    for each in (ben, carla):
        expect(await each.beats(), error=E.UNKNOWN_MEMBER_ID)


@case("timeout.sync.leader-missing", 1)
async def leader_never_syncs(tell: Story) -> None:
    """A leader that never hands out the shares is expelled; its followers are asked to join again."""
    anna, ben, carla = await awaiting_sync(tell, size=3, rebalance_timeout_ms=2000)
    waiting = [ben.syncs(), carla.syncs()]
    for each in waiting:
        expect(await each, error=E.REBALANCE_IN_PROGRESS, assignment=b"")
    expect(await anna.beats(), error=E.UNKNOWN_MEMBER_ID)
    await tell.is_in("PreparingRebalance", members=2)
    answers = [each.asks_to_join() for each in (ben, carla)]
    same("leaders", 1, len({(await each).leader for each in answers}))


@case("timeout.sync.duration", 2)
async def longest_timeout_counts_for_sync(tell: Story) -> None:
    """The wait for SyncGroup is as long as the longest rebalance timeout in the group."""
    anna = await alone(tell, rebalance_timeout_ms=3000)
    ben = Member(tell, "ben", rebalance_timeout_ms=500)
    await let_in(anna, ben)
    waiting = ben.syncs()
    expect(await waiting, error=E.REBALANCE_IN_PROGRESS)
    took("the wait for SyncGroup", waiting.took_seconds, 2.7, 3)


@case("timeout.sync.removes-static-members-too", 2)
async def static_member_never_syncs(tell: Story) -> None:
    """A static member that never fetches its share is expelled like any other, and its instance id is free."""
    anna, ben = await awaiting_sync(tell, static=True, rebalance_timeout_ms=2000)
    expect(await anna.syncs({anna.id: b"A"}), error=E.NONE)
    await tell.becomes("PreparingRebalance", members=1)
    expect(await ben.beats(), error=E.UNKNOWN_MEMBER_ID)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("timeout.sync.cancelled-by-new-rebalance", 2)
async def new_rebalance_forgets_the_old_wait(tell: Story) -> None:
    """When a rebalance begins, nobody owes a SyncGroup of the generation before."""
    anna, ben = await awaiting_sync(tell, rebalance_timeout_ms=2000)
    await tell.passes(1)
    carla = Member(tell, "carla", rebalance_timeout_ms=2000)
    knocking = await carla.knocks()
    waiting = [each.asks_to_join() for each in (anna, ben)]
    for each in (*waiting, knocking):
        expect(await each, error=E.NONE, generation_id=3)
    await tell.passes(1.3)
    await tell.is_in("CompletingRebalance", members=3)
    await share_out(anna, ben, carla)
    await tell.is_in("Stable", members=3)


@case("timeout.sync.stale-static-id-forces-rebalance", 3)
async def replaced_id_still_owes_a_sync(tell: Story) -> None:
    """A static member replaced before it synced leaves a debt that nobody can pay, and the group rebalances."""
    anna, ben = await awaiting_sync(tell, static=True, rebalance_timeout_ms=2000)
    expect(await anna.syncs({anna.id: b"A", ben.id: b"B"}), error=E.NONE)
    heir = Member(tell, "ben's successor", instance=ben.instance, rebalance_timeout_ms=2000)
    expect(await heir.asks_to_join(), error=E.NONE, generation_id=2)
    expect(await heir.syncs(), error=E.NONE, assignment=b"B")
    await tell.becomes("PreparingRebalance")
    left_with(await leave(tell, heir), E.NONE)
