"""Heartbeat: am I still in, and is this generation still the one?"""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect
from regroup.conformance.harness.member import Member
from regroup.conformance.harness.scenes import alone, awaiting_sync, disturbed, left_behind, stable
from regroup.conformance.harness.story import Story
from regroup.protocol.errors import ErrorCode as E


@case("heartbeat.unknown-group", 1)
async def beat_in_no_group(tell: Story) -> None:
    """Nobody is known in a group that does not exist."""
    expect(await Member(tell, "anna").beats(member_id="m", generation=1), error=E.UNKNOWN_MEMBER_ID)
    await tell.is_in("Dead")


@case("heartbeat.empty-group", 1)
async def beat_in_an_empty_group(tell: Story) -> None:
    """Who left is unknown when it beats."""
    anna = await left_behind(tell)
    expect(await anna.beats(generation=2), error=E.UNKNOWN_MEMBER_ID)


@case("heartbeat.unknown-member", 1)
async def stranger_beats(tell: Story) -> None:
    """A stranger that beats is told that nobody knows it."""
    anna = await alone(tell)
    expect(await anna.beats(member_id="other"), error=E.UNKNOWN_MEMBER_ID)


@case("heartbeat.illegal-generation", 1)
async def beat_of_another_generation(tell: Story) -> None:
    """A member that believes in another generation, older or newer, is told so."""
    anna = await alone(tell)
    for generation in (0, 2, -1):
        expect(await anna.beats(generation=generation), error=E.ILLEGAL_GENERATION)


@case("heartbeat.stable", 1)
async def beat_in_stable(tell: Story) -> None:
    """In a stable group there is nothing to tell, in any version."""
    anna = await alone(tell)
    for version in range(5):
        expect(await anna.beats(version=version), error=E.NONE)


@case("heartbeat.completing", 1)
async def beat_before_sync(tell: Story) -> None:
    """Between JoinGroup and SyncGroup a heartbeat is fine: clients begin with it right away."""
    anna, ben = await awaiting_sync(tell)
    for each in (anna, ben):
        expect(await each.beats(), error=E.NONE)
    await tell.is_in("CompletingRebalance")


@case("heartbeat.completing.previous-generation", 2)
async def late_beat_of_the_generation_before(tell: Story) -> None:
    """As soon as a generation has begun, the one before is illegal."""
    anna, _ = await awaiting_sync(tell)
    expect(await anna.beats(generation=1), error=E.ILLEGAL_GENERATION)


@case("heartbeat.fenced-static", 1)
async def wrong_id_behind_an_instance(tell: Story) -> None:
    """An instance id with another member id than its own is fenced."""
    anna, _ = await stable(tell, static=True)
    expect(await anna.beats(member_id="wrong"), error=E.FENCED_INSTANCE_ID)


@case("heartbeat.unknown-instance-id", 2)
async def unknown_instance_beats(tell: Story) -> None:
    """A known member id behind an unknown instance id is unknown."""
    anna, _ = await stable(tell, static=True)
    anna.instance = "nope"
    expect(await anna.beats(), error=E.UNKNOWN_MEMBER_ID)


@case("heartbeat.discovers-rebalance", 1)
async def beat_learns_of_the_rebalance(tell: Story) -> None:
    """This is how members learn that they should join again."""
    anna, ben, _, _ = await disturbed(tell)
    for each in (anna, ben):
        expect(await each.beats(), error=E.REBALANCE_IN_PROGRESS)
