"""How stories begin: the situations that the catalogue starts from.

The generations that are named here are Kafka's. They are checked in stories of their own and not in every beginning:
a broker that counts otherwise shall fail there, and not everywhere.
"""

from typing import TypedDict, Unpack

from regroup.conformance.harness.expect import expect, same
from regroup.conformance.harness.member import Member, Protocols, share_out
from regroup.conformance.harness.pending import Waiting
from regroup.conformance.harness.story import REBALANCE_TIMEOUT_MS, Story
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import JoinGroupResponse

NAMES = ("anna", "ben", "carla", "dora", "emil", "frida", "gustav", "hanna", "ivo", "jana", "karl", "lena")


class About(TypedDict, total=False):
    """What a member may have that is not as usual."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols


class AboutOne(About, total=False):
    """The same, of one who is alone."""

    instance: str | None
    protocol_type: str


async def awaiting_sync_alone(tell: Story, **about: Unpack[AboutOne]) -> Member:
    """Anna joins a new group and leads generation 1; nobody has sent SyncGroup."""
    anna = Member(tell, "anna", **about)
    expect(await anna.joins(), error=E.NONE, leader=anna.id)
    return anna


async def alone(tell: Story, **about: Unpack[AboutOne]) -> Member:
    """Anna is the only member and the leader of a stable group, generation 1."""
    anna = await awaiting_sync_alone(tell, **about)
    await share_out(anna)
    return anna


async def left_behind(tell: Story) -> Member:
    """Anna was alone and left: the group is empty, generation 2."""
    anna = await alone(tell)
    await anna.leaves()
    await tell.is_in("Empty")
    return anna


async def awaiting_sync(tell: Story, *, size: int = 2, static: bool = False, **about: Unpack[About]) -> list[Member]:
    """Members in generation 2, Anna leads; nobody has sent SyncGroup. Instances, if static, are `i-` and the name."""

    def instance(name: str) -> str | None:
        return f"i-{name}" if static else None

    anna = await alone(tell, instance=instance("anna"), **about)
    others = [Member(tell, name, instance=instance(name), **about) for name in NAMES[1:size]]
    waiting = [await each.knocks() for each in others]
    expect(await anna.asks_to_join(), error=E.NONE, leader=anna.id)
    for each in waiting:
        expect(await each, error=E.NONE, generation_id=anna.generation, leader=anna.id, members=[])
    return [anna, *others]


async def stable(tell: Story, *, size: int = 2, static: bool = False, **about: Unpack[About]) -> list[Member]:
    """Members in generation 2, Anna leads, everyone has a share."""
    members = await awaiting_sync(tell, size=size, static=static, **about)
    await share_out(*members)
    return members


async def disturbed(
    tell: Story, *, rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
) -> tuple[Member, Member, Member, Waiting[JoinGroupResponse]]:
    """Anna and Ben were stable in generation 2; Carla knocks, and the group is preparing generation 3."""
    anna, ben = await stable(tell, rebalance_timeout_ms=rebalance_timeout_ms)
    carla = Member(tell, "carla", rebalance_timeout_ms=rebalance_timeout_ms)
    waiting = await carla.knocks()
    await tell.is_in("PreparingRebalance", members=3)
    return anna, ben, carla, waiting


async def let_in(leader: Member, newcomer: Member) -> None:
    """The newcomer knocks, the leader joins again, and their generation begins; nobody has sent SyncGroup."""
    knocking = await newcomer.knocks()
    await leader.asks_to_join()
    await knocking


async def new_generation(*members: Member) -> list[JoinGroupResponse]:
    """All of them join again, and the next generation begins."""
    waiting = [each.asks_to_join() for each in members]
    answers = [await each for each in waiting]
    same("generations", 1, len({each.generation_id for each in answers}))
    return answers
