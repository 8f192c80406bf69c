"""Makes groups in the states from which stories start.

A group starts in generation 1 with its first member and reaches generation 2 with the others. These generation ids are
checked by stories of their own and not here: a broker that counts otherwise fails in few stories, not in all.
"""

from typing import Unpack

from regroup.conformance.harness.expect import expect
from regroup.conformance.harness.member import USUAL_SESSION_TIMEOUT, ConformanceMember, MemberOptions, sync_all
from regroup.conformance.harness.sent_request import SentRequest
from regroup.conformance.harness.story import DEFAULT_REBALANCE_TIMEOUT_MS, StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import JoinGroupResponse

MEMBER_NAMES = ("anna", "ben", "carla", "dora", "emil", "frida", "gustav", "hanna", "ivo", "jana", "karl", "lena")


class SingleMemberOptions(MemberOptions, total=False):
    """The options that a story can set for the only member of a group."""

    instance_id: str | None
    protocol_type: str


async def completing_group_of_one(story: StoryContext, **options: Unpack[SingleMemberOptions]) -> ConformanceMember:
    """Make a group in CompletingRebalance, generation 1: Anna has joined and is the leader."""
    anna = ConformanceMember(story, "anna", **options)
    expect(await anna.join(), error=E.NONE, leader=anna.id)
    return anna


async def stable_group_of_one(story: StoryContext, **options: Unpack[SingleMemberOptions]) -> ConformanceMember:
    """Make a Stable group of generation 1: Anna is the only member."""
    anna = await completing_group_of_one(story, **options)
    await sync_all(anna)
    return anna


async def empty_group(story: StoryContext) -> ConformanceMember:
    """Make an Empty group of generation 2: Anna was the only member and has left."""
    anna = await stable_group_of_one(story)
    await anna.leave_group()
    await story.expect_state("Empty")
    return anna


async def completing_group(
    story: StoryContext, *, size: int = 2, static: bool = False, **options: Unpack[MemberOptions]
) -> list[ConformanceMember]:
    """Make a group in CompletingRebalance, generation 2: Anna, Ben … have joined, and Anna is the leader.

    Static members have the group instance ids `i-anna`, `i-ben` …
    """

    def instance_id(name: str) -> str | None:
        return f"i-{name}" if static else None

    anna = await stable_group_of_one(story, instance_id=instance_id("anna"), **options)
    others = [ConformanceMember(story, name, instance_id=instance_id(name), **options) for name in MEMBER_NAMES[1:size]]
    joins = [await member.start_rebalance() for member in others]
    expect(await anna.join_group(), error=E.NONE, leader=anna.id)
    await story.expect_all(joins, error=E.NONE, generation_id=anna.generation_id, leader=anna.id, members=[])
    return [anna, *others]


async def stable_group(
    story: StoryContext, *, size: int = 2, static: bool = False, **options: Unpack[MemberOptions]
) -> list[ConformanceMember]:
    """Make a Stable group of generation 2: Anna is the leader, and every member has its assignment."""
    members = await completing_group(story, size=size, static=static, **options)
    await sync_all(*members)
    return members


async def preparing_group(
    story: StoryContext, *, rebalance_timeout_ms: int = DEFAULT_REBALANCE_TIMEOUT_MS
) -> tuple[ConformanceMember, ConformanceMember, ConformanceMember, SentRequest[JoinGroupResponse]]:
    """Make a group in PreparingRebalance after generation 2, and return Anna, Ben, Carla and Carla's held JoinGroup.

    Anna and Ben are in the group, and have to rejoin.
    """
    anna, ben = await stable_group(story, rebalance_timeout_ms=rebalance_timeout_ms)
    carla = ConformanceMember(story, "carla", rebalance_timeout_ms=rebalance_timeout_ms)
    carla_join = await carla.start_rebalance()
    await story.expect_state("PreparingRebalance", members=3)
    return anna, ben, carla, carla_join


async def pending_join_member(
    story: StoryContext, name: str, *, session_timeout_ms: int = USUAL_SESSION_TIMEOUT
) -> ConformanceMember:
    """Make a dynamic member of the story's group that has got its member id (KIP-394) and has not sent a JoinGroup with
    it."""
    member = ConformanceMember(story, name, session_timeout_ms=session_timeout_ms)
    await member.obtain_member_id()
    return member


async def add_member(leader: ConformanceMember, member: ConformanceMember) -> None:
    """Let a member join the leader's group: the group is in CompletingRebalance afterwards, with the next
    generation."""
    join = await member.start_rebalance()
    await leader.join_group()
    await join
