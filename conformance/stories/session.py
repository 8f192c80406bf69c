"""Who falls silent: sessions, newcomers, and ids that do not come back."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import code_is, every_partition, expect, took
from regroup.conformance.harness.member import Member, share_out
from regroup.conformance.harness.scenes import alone, disturbed, let_in, stable
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import FOO
from regroup.protocol.errors import ErrorCode as E


@case("timeout.session.expiry-in-stable", 1)
async def silence_in_stable(tell: Story) -> None:
    """A member that is silent for its session timeout is expelled, and the others are asked to join again."""
    short = tell.short_session_ms
    anna, ben = await alone(tell), Member(tell, "ben", session_timeout_ms=short)
    await let_in(anna, ben)
    await share_out(anna, ben)
    await tell.becomes("PreparingRebalance", members=1, within=short / 1000 + 10)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)
    expect(await ben.beats(), error=E.UNKNOWN_MEMBER_ID)


@case("timeout.session.expiry-of-last-member", 1)
async def last_member_falls_silent(tell: Story) -> None:
    """When the last member is expelled the group is empty, one generation later."""
    short = tell.short_session_ms
    anna = await alone(tell, session_timeout_ms=short)
    await tell.becomes("Empty", members=0, within=short / 1000 + 10)
    expect(await anna.beats(), error=E.UNKNOWN_MEMBER_ID)
    expect(await Member(tell, "ben").joins(), error=E.NONE, generation_id=3)


@case("timeout.session.parked-join-not-expired", 1)
async def waiting_counts_as_a_sign_of_life(tell: Story) -> None:
    """A member that waits in JoinGroup is not expelled, however long it takes."""
    short = tell.short_session_ms
    anna, ben = await alone(tell), Member(tell, "ben", session_timeout_ms=short)
    await let_in(anna, ben)
    await share_out(anna, ben)
    await Member(tell, "carla").knocks()
    waiting = ben.asks_to_join()
    await tell.passes(2 * short / 1000)
    await waiting.is_parked()
    await tell.is_in("PreparingRebalance", members=3)


@case("timeout.session.parked-sync-not-expired", 1)
async def waiting_for_a_share_counts_too(tell: Story) -> None:
    """A member that waits in SyncGroup is not expelled; its session begins anew with its share."""
    short = tell.short_session_ms
    anna, ben = await alone(tell), Member(tell, "ben", session_timeout_ms=short)
    await let_in(anna, ben)
    waiting = ben.syncs()
    await tell.passes(2 * short / 1000)
    await waiting.is_parked()
    expect(await anna.syncs({ben.id: b"B"}), error=E.NONE)
    expect(await waiting, error=E.NONE, assignment=b"B")
    expect(await ben.beats(), error=E.NONE)


@case("timeout.new-member.five-minutes", 1, seconds=330)
async def newcomer_waits_five_minutes(tell: Story) -> None:
    """A newcomer that never got into a generation is dropped after five minutes, though its JoinGroup waits."""
    await alone(tell, session_timeout_ms=600_000, rebalance_timeout_ms=600_000)
    knocking = await Member(tell, "ben").knocks()
    expect(await knocking.within(315), error=E.UNKNOWN_MEMBER_ID, member_id="")
    took("the newcomer's wait", knocking.took_seconds, 300, 300)
    await tell.is_in("PreparingRebalance", members=1)


@case(
    "timeout.new-member.sign-of-life",
    3,
    corrected="The catalogue does not have it (a random course found it): a newcomer that has given a sign of life is "
    "timed by its session from then on, and its waiting JoinGroup does not protect it.",
)
async def newcomer_that_beats_is_timed_by_its_session(tell: Story) -> None:
    """A newcomer that beats while it waits has its session timeout from then on, and no longer five minutes."""
    short = tell.short_session_ms
    await alone(tell, session_timeout_ms=60_000)
    ben = Member(tell, "ben", session_timeout_ms=short)
    knocking = await ben.knocks()
    expect(await ben.beats(generation=1), error=E.REBALANCE_IN_PROGRESS)
    expect(await knocking.within(short / 1000 + 10), error=E.UNKNOWN_MEMBER_ID, member_id="")
    await tell.is_in("PreparingRebalance", members=1)


@case("timeout.new-member.becomes-regular", 1)
async def newcomer_becomes_a_member(tell: Story) -> None:
    """With its first generation a newcomer is timed by its own session timeout."""
    short = tell.short_session_ms
    anna = Member(tell, "anna", session_timeout_ms=short)
    expect(await anna.joins(), error=E.NONE)
    await tell.becomes("Empty", within=short / 1000 + 10)
    expect(await anna.beats(), error=E.UNKNOWN_MEMBER_ID)


@case("timeout.pending-member.expiry-completes-join", 1)
async def pending_id_expires(tell: Story) -> None:
    """An id that does not come back within its session timeout is forgotten, and the generation begins."""
    short = tell.short_session_ms
    anna, ben, _, knocking = await disturbed(tell)
    dora = Member(tell, "dora", session_timeout_ms=short)
    await dora.gets_an_id()
    waiting = [knocking, anna.asks_to_join(), ben.asks_to_join()]
    for each in waiting:
        expect(await each.within(short / 1000 + 10), error=E.NONE, generation_id=3)
    expect(await dora.asks_to_join(), error=E.UNKNOWN_MEMBER_ID)


@case("timeout.session.reset-by-heartbeat", 1)
async def heartbeats_keep_a_member_in(tell: Story) -> None:
    """Who beats often enough stays, and who stops is out one session timeout later."""
    short = tell.short_session_ms
    anna = await alone(tell, session_timeout_ms=short)
    for _ in range(8):
        await tell.passes(short / 4000)
        expect(await anna.beats(), error=E.NONE)
    await tell.becomes("Empty", within=short / 1000 + 10)


@case("timeout.session.reset-by-offset-commit", 1)
async def commits_keep_a_member_in(tell: Story) -> None:
    """A commit is a sign of life too."""
    short = tell.short_session_ms
    anna = await alone(tell, session_timeout_ms=short)
    for offset in range(8):
        await tell.passes(short / 4000)
        every_partition(await anna.commits({(FOO, 0): offset}), E.NONE)
    await tell.is_in("Stable", members=1)


@case("timeout.session.sync-in-stable-does-not-reset", 3)
async def asking_for_the_share_again_is_no_sign_of_life(tell: Story) -> None:
    """A SyncGroup that is answered at once in a stable group does not count as a sign of life."""
    short = tell.short_session_ms
    anna = await alone(tell, session_timeout_ms=short)
    for _ in range(8):
        await tell.passes(short / 4000)
        last = (await anna.syncs()).error_code
    code_is("the last SyncGroup", E.UNKNOWN_MEMBER_ID, last)
    await tell.is_in("Empty")


@case("timeout.session.reset-at-join-completion", 1)
async def generation_renews_all_sessions(tell: Story) -> None:
    """When a generation begins, every session begins anew, also that of a static member that stayed silent."""
    short = max(2000, tell.short_session_ms)
    rebalance = short * 3 // 4
    anna, ben = await stable(tell, static=True, session_timeout_ms=short, rebalance_timeout_ms=rebalance)
    await anna.asks_to_join(protocols={"range": b"new"})
    await tell.passes(short / 2000)
    expect(await ben.beats(generation=3), error=E.NONE)
