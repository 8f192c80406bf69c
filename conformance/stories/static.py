"""Static members (KIP-345): an instance id outlives the process that has it."""

from regroup.conformance.harness.cases import Need, case
from regroup.conformance.harness.expect import every_partition, expect, left_with, same, that
from regroup.conformance.harness.member import Member, share_of
from regroup.conformance.harness.scenes import alone, let_in, stable
from regroup.conformance.harness.story import SESSION_TIMEOUT_MS, Story
from regroup.conformance.harness.target import FOO
from regroup.protocol.errors import ErrorCode as E


def successor(of: Member, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> Member:
    """The next process with the same instance id; it has no member id yet."""
    return Member(of.story, f"{of.name}'s successor", instance=of.instance, session_timeout_ms=session_timeout_ms)


@case("static.new-instance-joins-stable", 1)
async def new_instance_disturbs(tell: Story) -> None:
    """A new instance id is a newcomer like any other and starts a rebalance."""
    anna, _ = await stable(tell, static=True)
    await Member(tell, "carla", instance="i-carla").asks_to_join().is_parked()
    await tell.is_in("PreparingRebalance", members=3)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("static.replace.follower.stable", 1)
async def follower_restarts(tell: Story) -> None:
    """A static follower that restarts gets a new member id and the present generation; nobody notices."""
    anna, ben = await stable(tell, static=True)
    answer = await successor(ben).asks_to_join()
    expect(answer, error=E.NONE, generation_id=2, leader=anna.id, members=[], skip_assignment=False)
    expect(answer, protocol_name="range")
    that(answer.member_id.startswith("i-ben-"), f"the new id should begin with the instance id: {answer.member_id}")
    that(answer.member_id != ben.id, "the member id should be a new one")
    await tell.is_in("Stable", members=2)
    expect(await anna.beats(), error=E.NONE)


@case("static.replace.leader.stable.v9", 1)
async def leader_restarts(tell: Story) -> None:
    """A static leader that restarts leads again under its new id, and is told not to run its assignor (KIP-814)."""
    anna, ben = await stable(tell, static=True)
    answer = await successor(anna).asks_to_join(version=9)
    expect(answer, error=E.NONE, generation_id=2, leader=answer.member_id, skip_assignment=True)
    that(answer.member_id != anna.id, "the member id should be a new one")
    listed = sorted(each.member_id for each in answer.members)
    same("the members that the leader sees", sorted([answer.member_id, ben.id]), listed)
    await tell.is_in("Stable", members=2)


@case("static.replace.leader.stable.before-v9", 1)
async def old_leader_restarts(tell: Story) -> None:
    """Before v9 a restarted leader is told its old id as the leader's, so that it does not run its assignor."""
    for version in range(5, 9):
        tell.turns_to_group(f"v{version}")
        anna, _ = await stable(tell, static=True)
        answer = await successor(anna).asks_to_join(version=version)
        expect(answer, error=E.NONE, generation_id=2, leader=anna.id, members=[])
        that(answer.member_id != anna.id, "the member id should be a new one")
        await tell.is_in("Stable", members=2)


@case("static.replace.selected-protocol-changes", 1)
async def restart_with_another_assignor(tell: Story) -> None:
    """A restart that would change the group's choice of assignor starts a rebalance."""
    anna, ben = await stable(tell, static=True)
    waiting = successor(ben).asks_to_join(protocols={"roundrobin": b"rr"})
    await waiting.is_parked()
    await tell.is_in("PreparingRebalance", members=2)
    expect(await anna.asks_to_join(), error=E.NONE, generation_id=3, protocol_name="roundrobin")
    expect(await waiting, error=E.NONE, generation_id=3)


@case("static.replace.preparing", 1)
async def restart_while_preparing(tell: Story) -> None:
    """A static member that waits in JoinGroup and is replaced is fenced; its successor waits in its place."""
    anna, ben = await stable(tell, static=True)
    knocking = await Member(tell, "carla", instance="i-carla").knocks()
    waiting = ben.asks_to_join()
    await waiting.is_parked()
    next_ben = successor(ben)
    again = next_ben.asks_to_join()
    expect(await waiting, error=E.FENCED_INSTANCE_ID, member_id=ben.id, leader="", generation_id=-1)
    await again.is_parked()
    expect(await anna.asks_to_join(), error=E.NONE, generation_id=3)
    for each in (again, knocking):
        expect(await each, error=E.NONE, generation_id=3)
    await tell.is_in("CompletingRebalance", members=3)


@case("static.replace.old-id-fenced-everywhere", 1)
async def old_id_is_fenced(tell: Story) -> None:
    """The replaced id is fenced in every request that names the instance, and unknown in those that do not."""
    _, ben = await stable(tell, static=True)
    expect(await successor(ben).asks_to_join(), error=E.NONE)
    for instance, code in ((ben.instance, E.FENCED_INSTANCE_ID), (None, E.UNKNOWN_MEMBER_ID)):
        ben.instance = instance
        expect(await ben.asks_to_join(), error=code)
        expect(await ben.syncs(), error=code)
        expect(await ben.beats(), error=code)
        every_partition(await ben.commits({(FOO, 0): 1}), code)
        left_with(await ben.leaves(), code)
    await tell.is_in("Stable", members=2)


@case("static.replace.keeps-assignment", 1)
async def successor_inherits_the_share(tell: Story) -> None:
    """The successor gets the share of the one it replaced."""
    _, ben = await stable(tell, static=True)
    next_ben = successor(ben)
    await next_ben.asks_to_join()
    expect(await next_ben.syncs(), error=E.NONE, assignment=share_of(ben))
    await tell.is_in("Stable")


@case("static.replace.keeps-client-identity", 3)
async def successor_inherits_the_client_id(tell: Story) -> None:
    """In DescribeGroups the successor keeps the client id of the one it replaced."""
    anna = Member(tell, "anna", instance="i1", client_id="c2")
    await anna.joins()
    await anna.syncs({anna.id: b""})
    successor = Member(tell, "anna's successor", instance="i1", client_id="c9")
    expect(await successor.asks_to_join(), error=E.NONE)
    shown = (await tell.describe()).members[0]
    same("member id and client id", (successor.id, "c2"), (shown.member_id, shown.client_id))


@case("static.replace.session-timer-uses-old-timeout", 3)
async def successor_inherits_the_session_timeout_first(tell: Story) -> None:
    """The successor's first session still has the old timeout; its own counts from the next heartbeat on."""
    short = tell.short_session_ms
    anna = await alone(tell, instance="i1", session_timeout_ms=short)
    heir = successor(anna, session_timeout_ms=max(60_000, 3 * short))
    expect(await heir.asks_to_join(), error=E.NONE)
    await tell.becomes("Empty", within=3 * short / 1000 + 5)
    expect(await heir.beats(), error=E.UNKNOWN_MEMBER_ID)


@case("static.known-id.follower-unchanged", 1)
async def static_follower_asks_again(tell: Story) -> None:
    """A static follower that still has its id is told the present generation."""
    anna, ben = await stable(tell, static=True)
    answer = await ben.asks_to_join()
    expect(answer, error=E.NONE, member_id=ben.id, generation_id=2, leader=anna.id, members=[])
    await tell.is_in("Stable", members=2)


@case("static.known-id.leader-rebalances", 2)
async def static_leader_joins_again(tell: Story) -> None:
    """A static leader that still has its id starts a rebalance, as a dynamic one does."""
    anna, ben = await stable(tell, static=True)
    await anna.asks_to_join().is_parked()
    await tell.is_in("PreparingRebalance", members=2)
    expect(await ben.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("static.wrong-member-id", 1)
async def wrong_id_with_an_instance(tell: Story) -> None:
    """Joining with an instance id and another member id than its own is fenced."""
    anna, _ = await stable(tell, static=True)
    answer = await successor(anna).asks_to_join(member_id="unknown-id")
    expect(answer, error=E.FENCED_INSTANCE_ID, member_id="unknown-id")
    await tell.is_in("Stable", members=2)


@case("static.unknown-instance-known-member", 2)
async def known_id_with_an_unknown_instance(tell: Story) -> None:
    """Joining with a known member id and an unknown instance id is refused."""
    anna, _ = await stable(tell, static=True)
    anna.instance = "nope"
    expect(await anna.asks_to_join(), error=E.UNKNOWN_MEMBER_ID)
    await tell.is_in("Stable", members=2)


@case("static.id-changes-every-time", 2)
async def five_restarts(tell: Story) -> None:
    """Each restart gets another member id, in the same generation."""
    anna, _ = await stable(tell, static=True)
    given = [anna.id]
    for _ in range(5):
        answer = await successor(anna).asks_to_join()
        expect(answer, error=E.NONE, generation_id=2)
        given.append(answer.member_id)
    same("different member ids", 6, len({*given}))
    await tell.is_in("Stable", members=2)


@case("static.session-expiry", 1)
async def static_member_stays_away(tell: Story) -> None:
    """A static member that is silent for its session timeout is removed like any other."""
    short = tell.short_session_ms
    anna = await alone(tell, instance="i-anna")
    ben = Member(tell, "ben", instance="i-ben", session_timeout_ms=short)
    await let_in(anna, ben)
    await anna.syncs({anna.id: b"all"})
    await tell.becomes("PreparingRebalance", members=1, within=short / 1000 + 5)
    expect(await ben.beats(), error=E.UNKNOWN_MEMBER_ID)
    expect(await anna.beats(), error=E.REBALANCE_IN_PROGRESS)


@case("static.full-group-cannot-restart", 2, needs={"group.max.size": Need(at_least=2, at_most=12)})
async def no_room_for_a_restart(tell: Story) -> None:
    """In a full group a restarting static member is refused until its session is over."""
    room = tell.setting("group.max.size")
    *_, last = await stable(tell, static=True, size=room)
    expect(await successor(last).asks_to_join(), error=E.GROUP_MAX_SIZE_REACHED, member_id="")
    await tell.is_in("Stable", members=room)
    expect(await last.beats(), error=E.NONE)


@case("static.does-not-leave-on-close", 2)
async def hanging_up_is_not_leaving(tell: Story) -> None:
    """A connection that is lost changes nothing in the group; only silence for the session timeout does."""
    anna, ben = await stable(tell, static=True)
    await tell.hangs_up()
    await tell.is_in("Stable", members=2)
    for each in (anna, ben):
        expect(await each.beats(), error=E.NONE)


@case("static.fenced-join-body", 3)
async def body_of_a_fenced_join(tell: Story) -> None:
    """The answer to a waiting JoinGroup that is fenced is empty but for the member id."""
    _, ben = await stable(tell, static=True)
    await Member(tell, "carla", instance="i-carla").knocks()
    waiting = ben.asks_to_join()
    await waiting.is_parked()
    successor(ben).asks_to_join()
    answer = await waiting
    expect(answer, error=E.FENCED_INSTANCE_ID, member_id=ben.id, leader="", generation_id=-1, members=[])
    expect(answer, protocol_type=None, protocol_name=None, skip_assignment=False)
