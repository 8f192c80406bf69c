"""Stories about Heartbeat: when it succeeds, and with which error it is refused."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect
from regroup.conformance.harness.groups import (
    completing_group,
    empty_group,
    preparing_group,
    stable_group,
    stable_group_of_one,
)
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


@case("heartbeat.unknown-group", 1)
async def heartbeat_to_unknown_group(story: StoryContext) -> None:
    """A heartbeat to a group that does not exist is refused."""
    expect(await ConformanceMember(story, "anna").heartbeat(member_id="m", generation_id=1), error=E.UNKNOWN_MEMBER_ID)
    await story.expect_state("Dead")


@case("heartbeat.empty-group", 1)
async def heartbeat_to_empty_group(story: StoryContext) -> None:
    """A heartbeat of a member that has left the group is refused."""
    anna = await empty_group(story)
    expect(await anna.heartbeat(generation_id=2), error=E.UNKNOWN_MEMBER_ID)


@case("heartbeat.unknown-member", 1)
async def heartbeat_of_unknown_member(story: StoryContext) -> None:
    """A heartbeat with an unknown member id is refused."""
    anna = await stable_group_of_one(story)
    expect(await anna.heartbeat(member_id="other"), error=E.UNKNOWN_MEMBER_ID)


@case("heartbeat.illegal-generation", 1)
async def heartbeat_with_illegal_generation(story: StoryContext) -> None:
    """A heartbeat with an older or newer generation id is refused."""
    anna = await stable_group_of_one(story)
    for generation_id in (0, 2, -1):
        expect(await anna.heartbeat(generation_id=generation_id), error=E.ILLEGAL_GENERATION)


@case("heartbeat.stable", 1)
async def heartbeat_to_stable_group(story: StoryContext) -> None:
    """In a stable group a heartbeat succeeds in every version."""
    anna = await stable_group_of_one(story)
    for version in range(5):
        expect(await anna.heartbeat(version=version), error=E.NONE)


@case("heartbeat.completing", 1)
async def heartbeat_before_sync(story: StoryContext) -> None:
    """Between JoinGroup and SyncGroup a heartbeat succeeds: clients send heartbeats as soon as they have joined."""
    anna, ben = await completing_group(story)
    await story.expect_all((member.heartbeat() for member in (anna, ben)), error=E.NONE)
    await story.expect_state("CompletingRebalance")


@case("heartbeat.completing.previous-generation", 2)
async def heartbeat_of_previous_generation(story: StoryContext) -> None:
    """Once a generation has begun, a heartbeat of the previous one is refused."""
    anna, _ = await completing_group(story)
    expect(await anna.heartbeat(generation_id=1), error=E.ILLEGAL_GENERATION)


@case("heartbeat.fenced-static", 1)
async def heartbeat_with_fenced_instance_id(story: StoryContext) -> None:
    """A heartbeat with a group instance id and another member id than its current one is fenced."""
    anna, _ = await stable_group(story, static=True)
    expect(await anna.heartbeat(member_id="wrong"), error=E.FENCED_INSTANCE_ID)


@case("heartbeat.unknown-instance-id", 2)
async def heartbeat_with_unknown_instance_id(story: StoryContext) -> None:
    """A heartbeat with a known member id and an unknown group instance id is refused."""
    anna, _ = await stable_group(story, static=True)
    anna.instance_id = "nope"
    expect(await anna.heartbeat(), error=E.UNKNOWN_MEMBER_ID)


@case("heartbeat.discovers-rebalance", 1)
async def heartbeat_during_rebalance(story: StoryContext) -> None:
    """A heartbeat during a rebalance gets REBALANCE_IN_PROGRESS, which makes the member rejoin."""
    anna, ben, _, _ = await preparing_group(story)
    await story.expect_all((member.heartbeat() for member in (anna, ben)), error=E.REBALANCE_IN_PROGRESS)
