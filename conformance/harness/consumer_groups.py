"""Makes groups of the consumer protocol in the states from which stories start.

Kafka gives a new group the epoch 1, and its first member the epoch 2. Only the stories about that check it: the others
count from `group.epoch`, so that a broker that counts otherwise fails in few stories, not in all.
"""

from typing import Unpack

from regroup.conformance.harness.broker_under_test import SIX_TOPIC
from regroup.conformance.harness.cases import SettingBounds, SettingChoice, SettingRequirement
from regroup.conformance.harness.consumer_group import (
    ALL,
    HIGH,
    LOW,
    NOTHING,
    ConsumerProtocolGroup,
    HeartbeatFields,
    expect_answer,
)
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E

SHORT_SESSION_MS = 2_000
"""The session timeout in milliseconds of stories in which a session expires."""
SHORT_INTERVAL_MS = 500
"""The heartbeat interval in milliseconds that belongs to it."""

ORDINARY: dict[str, SettingRequirement] = {
    "group.consumer.max.size": SettingBounds(at_least=6),
    "offsets.retention.check.interval.ms": SettingBounds(at_least=60_000),
    "group.consumer.migration.policy": SettingChoice(("bidirectional",)),
}
"""The settings that most of these stories need."""

SHORT_SESSIONS: dict[str, SettingRequirement] = {
    **ORDINARY,
    "group.consumer.min.session.timeout.ms": SettingBounds(at_most=SHORT_SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": SettingBounds(at_most=SHORT_INTERVAL_MS),
}
"""The settings that stories about expiring sessions need."""

FULL_GROUPS: dict[str, SettingRequirement] = {"group.consumer.max.size": SettingBounds(at_least=2, at_most=8)}
"""The settings that stories about full groups need."""


async def group_of_one(story: StoryContext, **fields: Unpack[HeartbeatFields]) -> ConsumerProtocolGroup:
    """Make a group whose only member, m1, is STABLE and is assigned every partition. `fields` are those of m1's
    heartbeat."""
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group, **fields)
    return group


async def add_first(group: ConsumerProtocolGroup, **fields: Unpack[HeartbeatFields]) -> None:
    """Let m1 join a group without members, and expect that it is assigned every partition; sets the group's `epoch`."""
    answer = await group.join("m1", **fields)
    expect_answer(answer, assignment=ALL)
    group.epoch = answer.response.member_epoch


async def with_short_session(story: StoryContext) -> ConsumerProtocolGroup:
    """Make a group without members whose sessions last two seconds."""
    return await ConsumerProtocolGroup.begin(
        story, session_timeout_ms=SHORT_SESSION_MS, heartbeat_interval_ms=SHORT_INTERVAL_MS
    )


async def two_joined(story: StoryContext, **fields: Unpack[HeartbeatFields]) -> ConsumerProtocolGroup:
    """Make a group in which m1 owns everything at `epoch - 1`, and m2 has joined at `epoch` and owns nothing.

    The target gives m1 the lower half, m2 the upper one. `fields` are those of m2's heartbeat.
    """
    group = await group_of_one(story)
    await add_second(group, **fields)
    return group


async def add_second(group: ConsumerProtocolGroup, **fields: Unpack[HeartbeatFields]) -> None:
    """Let m2 join the group of m1: the group epoch grows by one, and m2 is assigned no partition yet.

    `fields` are those of m2's heartbeat.
    """
    expect_answer(await group.join("m2", **fields), epoch=group.epoch + 1, assignment=NOTHING)
    group.epoch += 1


async def revoking(story: StoryContext) -> ConsumerProtocolGroup:
    """Make a group as `two_joined` does, in which a heartbeat response has asked m1 to keep only the lower half."""
    group = await two_joined(story)
    expect_answer(await group.beat("m1", group.epoch - 1), epoch=group.epoch - 1, assignment=LOW)
    return group


async def settled(story: StoryContext) -> ConsumerProtocolGroup:
    """Make a Stable group: m1 owns the lower half, m2 the upper half, both at `epoch`."""
    group = await revoking(story)
    await settle(group)
    return group


async def settle(group: ConsumerProtocolGroup, **fields: Unpack[HeartbeatFields]) -> None:
    """Let m1, which was asked to, release the upper half, and m2 receive it. `fields` are those of m2's heartbeat."""
    expect_answer(await group.beat("m1", group.epoch - 1, owned=LOW), epoch=group.epoch)
    expect_answer(await group.beat("m2", group.epoch, **fields), epoch=group.epoch, assignment=HIGH)


async def static_pair(story: StoryContext) -> ConsumerProtocolGroup:
    """Make a group as `settled` does, in which m2 is a static member with the instance id i2."""
    group = await two_joined(story, instance_id="i2")
    await settle(group, instance_id="i2")
    return group


async def away(story: StoryContext) -> ConsumerProtocolGroup:
    """Make a group as `static_pair` does; m2 has left with epoch -2."""
    group = await static_pair(story)
    expect_answer(await group.beat("m2", -2, instance_id="i2"))
    return group


async def full_group(story: StoryContext) -> tuple[ConsumerProtocolGroup, int]:
    """Make a group with as many members as `group.consumer.max.size` allows, m1, m2 …; the number is returned."""
    size = story.setting("group.consumer.max.size")
    group = await group_of_one(story, instance_id="i1")
    for number in range(2, size + 1):
        expect_answer(await group.join(f"m{number}"), error=E.NONE)
    group.epoch += size - 1
    return group, size


def six(*numbers: int) -> dict[str, list[int]]:
    """The topic of six partitions with these partition numbers, as partitions by topic."""
    return {SIX_TOPIC: [*numbers]}
