"""Makes groups that migrate: a classic group of Carla, and one in which a member of the consumer protocol joins her."""

from collections.abc import Mapping
from typing import Any

from regroup.conformance.harness.broker_under_test import SIX_TOPIC
from regroup.conformance.harness.consumer_group import (
    ALL,
    HIGH,
    LOW,
    NOTHING,
    ConsumerProtocolGroup,
    PartitionsByTopic,
    expect_answer,
)
from regroup.conformance.harness.expect import expect, expect_equal
from regroup.conformance.harness.groups import completing_group
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    assigned_partitions,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import SyncGroupResponse


def owning(partitions: PartitionsByTopic = NOTHING, *assignors: str, topic: str = SIX_TOPIC) -> Mapping[str, bytes]:
    """The protocols of a classic member that owns these partitions; by default it supports range."""
    owned = tuple(TopicPartition(name, number) for name, numbers in partitions.items() for number in numbers)
    metadata = encode_subscription(Subscription(version=1, topics=(topic,), owned_partitions=owned))
    return dict.fromkeys(assignors or ("range",), metadata)


def classic_assignment(partitions: PartitionsByTopic, user_data: bytes | None = None) -> bytes:
    """An assignment as the leader of a classic group sends it."""
    assigned = tuple(TopicPartition(name, number) for name, numbers in partitions.items() for number in numbers)
    return encode_assignment(Assignment(1, assigned, user_data))


def partitions_of(response: SyncGroupResponse) -> PartitionsByTopic:
    """The partitions that a SyncGroup response assigns, by topic."""
    named: dict[str, list[int]] = {}
    for topic, number in assigned_partitions(response.assignment):
        named.setdefault(topic, []).append(number)
    return {topic: sorted(numbers) for topic, numbers in named.items()}


async def classic_group(story: StoryContext, *, user_data: bytes | None = None, **options: Any) -> ConformanceMember:
    """Make a Stable classic group whose only member, Carla, owns everything."""
    carla = ConformanceMember(story, "carla", **{"protocols": owning(), **options})
    expect(await carla.join(), error=E.NONE)
    expect(await carla.sync_group({carla.id: classic_assignment(ALL, user_data)}), error=E.NONE)
    return carla


async def stable_classic_group(story: StoryContext, size: int) -> list[ConformanceMember]:
    """Make a Stable classic group of several members, whose assignments can be read."""
    leader, *followers = await completing_group(story, size=size, protocols=owning())
    shares = {each.id: classic_assignment(NOTHING) for each in followers}
    requests = [follower.sync_group() for follower in followers]
    expect(await leader.sync_group({leader.id: classic_assignment(ALL), **shares}), error=E.NONE)
    await story.expect_all(requests, error=E.NONE)
    return [leader, *followers]


async def mixed_group(story: StoryContext, **options: Any) -> tuple[ConsumerProtocolGroup, ConformanceMember]:
    """Make a group in which Carla owns everything, and n1 has joined by the consumer protocol and owns nothing.

    The target gives Carla the lower half and n1 the upper one.
    """
    group = await ConsumerProtocolGroup.begin(story)
    carla = await classic_group(story, **options)
    expect_answer(await group.join("n1"), epoch=carla.generation_id + 1, assignment=NOTHING)
    group.epoch = carla.generation_id + 1
    return group, carla


async def handed_over(story: StoryContext, **options: Any) -> tuple[ConsumerProtocolGroup, ConformanceMember]:
    """Make a group as `mixed_group` does, in which Carla has joined again as owner of nothing, and got the lower
    half."""
    group, carla = await mixed_group(story, **options)
    expect(await carla.join_group(), error=E.NONE, generation_id=group.epoch)
    response = await carla.sync_group()
    expect(response, error=E.NONE)
    expect_equal("Carla's assignment", LOW, partitions_of(response))
    return group, carla


async def settled_mixed_group(story: StoryContext, **options: Any) -> tuple[ConsumerProtocolGroup, ConformanceMember]:
    """Make a group as `handed_over` does; n1 has received the upper half."""
    group, carla = await handed_over(story, **options)
    expect_answer(await group.beat("n1", group.epoch), epoch=group.epoch, assignment=HIGH)
    return group, carla
