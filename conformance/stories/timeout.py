"""What silence and waiting do: the initial delay, the rebalance timeout, the session, the wait for SyncGroup."""

from regroup.conformance.cases import LEFT_IN_PEACE, Need, case
from regroup.conformance.expect import code_is, every_partition, expect, left_with, same, that
from regroup.conformance.member import Member, leave, share_out
from regroup.conformance.scenes import NAMES, alone, awaiting_sync, disturbed, stable
from regroup.conformance.story import Story
from regroup.conformance.target import FOO
from regroup.protocol.errors import ErrorCode as E

DELAYED = {"group.initial.rebalance.delay.ms": Need(at_least=500), "group.max.size": Need(at_least=3)}
UNDELAYED = {**LEFT_IN_PEACE, "group.initial.rebalance.delay.ms": Need(at_most=0)}

TICK_SECONDS = 0.4
"""Timers of a busy broker are late, never early: what must last a second may last this much longer."""


def took(what: str, seconds: float, at_least: float, at_most: float) -> None:
    """A duration between two bounds, where a busy machine may be late."""
    that(
        at_least - 0.05 <= seconds <= at_most + 10 * TICK_SECONDS, f"{what} took {seconds:.2f} s, not {at_least:.2f} s"
    )


@case("timeout.initial-delay.basic", 1, needs=DELAYED)
async def first_rebalance_waits(tell: Story) -> None:
    """The first member of an empty group waits for the initial delay, in case others come."""
    delay = tell.initial_delay_ms / 1000
    waiting = Member(tell, "anna").asks_to_join(version=3)
    await waiting.is_parked()
    await tell.is_in("PreparingRebalance")
    expect(await waiting.within(delay + 10), error=E.NONE, generation_id=1)
    took("the first rebalance", waiting.took_seconds, delay, delay)
    await tell.is_in("CompletingRebalance")


@case("timeout.initial-delay.extended-by-new-member", 1, needs=DELAYED)
async def newcomer_extends_the_delay(tell: Story) -> None:
    """A second member within the delay makes the group wait once more."""
    delay = tell.initial_delay_ms / 1000
    first = Member(tell, "anna").asks_to_join(version=3)
    await tell.passes(delay / 2)
    second = Member(tell, "ben").asks_to_join(version=3)
    for each in (first, second):
        expect(await each.within(3 * delay + 10), error=E.NONE, generation_id=1)
    took("the first rebalance", first.took_seconds, 2 * delay, 2 * delay)


@case("timeout.initial-delay.capped-by-rebalance-timeout", 1, needs=DELAYED)
async def delay_has_an_end(tell: Story) -> None:
    """However many come, the first rebalance is over after the rebalance timeout."""
    delay = tell.initial_delay_ms / 1000
    timeout_ms = 2 * tell.initial_delay_ms
    members = [Member(tell, name, rebalance_timeout_ms=timeout_ms) for name in NAMES[:3]]
    waiting = [each.asks_to_join(version=3) for each in members[:2]]
    await tell.passes(1.5 * delay)
    waiting.append(members[2].asks_to_join(version=3))
    for each in waiting:
        expect(await each.within(3 * delay + 10), error=E.NONE, generation_id=1)
    took("the first rebalance", waiting[0].took_seconds, 2 * delay, 2 * delay)
    that(waiting[2].took_seconds < delay, "the last member should not have extended the wait")


@case("timeout.initial-delay.zero", 2, needs=UNDELAYED)
async def no_delay(tell: Story) -> None:
    """Without a delay the first member is alone in generation 1 right away."""
    waiting = Member(tell, "anna").asks_to_join(version=3)
    answer = await waiting
    expect(answer, error=E.NONE, generation_id=1, leader=answer.member_id)
    took("the first rebalance", waiting.took_seconds, 0, 0)


@case("timeout.initial-delay.not-cut-short-when-everybody-joined", 1, needs=DELAYED)
async def delay_is_waited_out(tell: Story) -> None:
    """That everybody who is known waits does not end the initial delay."""
    delay = tell.initial_delay_ms / 1000
    anna = Member(tell, "anna")
    waiting = await anna.begins_to_join()
    expect(await waiting.within(delay + 10), error=E.NONE, generation_id=1)
    took("the first rebalance", waiting.took_seconds, delay, delay)


@case(
    "timeout.initial-delay.cut-short-by-pending-expiry",
    3,
    needs={**DELAYED, "group.initial.rebalance.delay.ms": Need(at_least=1500)},
    corrected="The catalogue does not have it (a random course found it): when a pending id expires, the join phase "
    "ends for those who have joined, although the initial delay is not over.",
)
async def expiry_of_an_id_ends_the_delay(tell: Story) -> None:
    """When the last pending id expires, the initial delay ends for those who have joined."""
    short = max(300, tell.setting("group.min.session.timeout.ms"))
    that(short < tell.initial_delay_ms / 2, f"a session of {short} ms does not end within the initial delay")
    await Member(tell, "ben", session_timeout_ms=short).gets_an_id()
    waiting = Member(tell, "anna").asks_to_join(version=3)
    expect(await waiting.within(short / 1000 + 10), error=E.NONE, generation_id=1)
    that(waiting.took_seconds < tell.initial_delay_ms / 1000, "the initial delay should have ended with the id")


@case("timeout.initial-delay.reapplied-after-empty", 2, needs=DELAYED)
async def delay_after_everyone_left(tell: Story) -> None:
    """A group that has become empty waits for the initial delay again, and a second newcomer extends it."""
    delay = tell.initial_delay_ms / 1000
    anna = await alone(tell)
    every_partition(await anna.commits({(FOO, 0): 1}), E.NONE)
    await anna.leaves()
    first = Member(tell, "ben").asks_to_join(version=3)
    await tell.passes(delay / 2)
    second = Member(tell, "carla").asks_to_join(version=3)
    for each in (first, second):
        expect(await each.within(3 * delay + 10), error=E.NONE, generation_id=3)
    took("the rebalance", first.took_seconds, 2 * delay, 2 * delay)


@case("timeout.initial-delay.member-leaves", 3, needs=DELAYED)
async def leaving_within_the_delay(tell: Story) -> None:
    """Who leaves while it waits is answered at once, with nothing; the others wait on."""
    anna, ben = Member(tell, "anna"), Member(tell, "ben")
    first, second = await anna.begins_to_join(), await ben.begins_to_join()
    await second.is_parked()
    left_with(await ben.leaves(), E.NONE)
    expect(await second, error=E.UNKNOWN_MEMBER_ID, member_id="")
    await tell.is_in("PreparingRebalance", members=1)
    expect(await first.within(3 * tell.initial_delay_ms / 1000 + 10), error=E.NONE, generation_id=1)


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


@case("timeout.session.expiry-in-stable", 1)
async def silence_in_stable(tell: Story) -> None:
    """A member that is silent for its session timeout is expelled, and the others are asked to join again."""
    short = tell.short_session_ms
    anna = await alone(tell)
    ben = Member(tell, "ben", session_timeout_ms=short)
    knocking = await ben.knocks()
    await anna.asks_to_join()
    await knocking
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
    anna = await alone(tell)
    ben = Member(tell, "ben", session_timeout_ms=short)
    knocking = await ben.knocks()
    await anna.asks_to_join()
    await knocking
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
    anna = await alone(tell)
    ben = Member(tell, "ben", session_timeout_ms=short)
    knocking = await ben.knocks()
    await anna.asks_to_join()
    await knocking
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
    await alone(tell)
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
    knocking = await ben.knocks()
    await anna.asks_to_join()
    await knocking
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
