"""Stories about topics that are created, grow or are deleted under a group of the consumer protocol."""

from regroup.conformance.harness.broker_under_test import SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import NOTHING, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import ORDINARY, add_first, group_of_one
from regroup.conformance.harness.expect import expect_equal
from regroup.conformance.harness.offsets import expect_committed
from regroup.conformance.harness.story import StoryContext


async def group_of_topic(story: StoryContext, partitions: int = 2) -> tuple[ConsumerProtocolGroup, str]:
    """A group whose only member owns all partitions of a topic of the story's own."""
    group = await ConsumerProtocolGroup.begin(story)
    topic = await group.create_topic("nx", partitions)
    answer = await group.join("m1", topic)
    expect_answer(answer, assignment={topic: [*range(partitions)]})
    group.epoch = answer.response.member_epoch
    return group, topic


@case("cg.topic.created", 1, required_settings=ORDINARY)
async def subscribed_topic_is_created(story: StoryContext) -> None:
    """When a subscribed topic is created, the next heartbeat raises the group epoch and carries its partitions."""
    group = await ConsumerProtocolGroup.begin(story)
    answer = await group.join("m1", f"{story.group_id}-nx")
    expect_answer(answer, assignment=NOTHING)
    epoch = answer.response.member_epoch
    topic = await group.create_topic("nx", 2)
    await group.expect_group("Stable", epoch)
    expect_answer(await group.beat("m1", epoch), epoch=epoch + 1, assignment={topic: [0, 1]})


@case("cg.topic.grown", 2, required_settings=ORDINARY)
async def subscribed_topic_grows(story: StoryContext) -> None:
    """When a subscribed topic gets more partitions, the next heartbeat raises the group epoch and carries them."""
    group, topic = await group_of_topic(story)
    await group.grow_topic(topic, 4)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch + 1, assignment={topic: [0, 1, 2, 3]})


@case("cg.topic.deleted", 1, required_settings=ORDINARY)
async def subscribed_topic_is_deleted(story: StoryContext) -> None:
    """When a subscribed topic is deleted, its partitions have to be released like any others."""
    group, topic = await group_of_topic(story)
    other = await group.create_topic("ny", 1)
    answer = await group.beat("m1", group.epoch, names=(topic, other))
    group.epoch = answer.response.member_epoch
    await group.delete_topic(other)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch, assignment={topic: [0, 1]})
    acknowledged = await group.beat("m1", group.epoch, owned={topic: [0, 1]})
    expect_answer(acknowledged, epoch=group.epoch + 1, assignment=None)


@case("cg.topic.unrelated", 2, required_settings=ORDINARY)
async def other_topic_grows(story: StoryContext) -> None:
    """A topic that the group does not subscribe to may grow without effect."""
    group = await group_of_one(story)
    other = await group.create_topic("other", 1)
    await group.grow_topic(other, 2)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch, assignment=None)


@case("cg.topic.assignment-of-unknown-id", 2, required_settings=ORDINARY)
async def deleted_topic_in_description(story: StoryContext) -> None:
    """ConsumerGroupDescribe leaves out a topic that does not exist any more."""
    group, topic = await group_of_topic(story)
    await group.delete_topic(topic)
    described = await group.described_member("m1")
    expect_equal("assignment", [], described.assignment.topic_partitions)


@case("cg.exp.topic-deleted", 2, required_settings=ORDINARY)
async def offsets_of_deleted_topic(story: StoryContext) -> None:
    """The offsets of a deleted topic go with it; group and members stay."""
    group, topic = await group_of_topic(story)
    await group.commit("m1", group.epoch, (topic, 0), offset=7)
    await expect_committed(story, (topic, 0), 7)
    await group.delete_topic(topic)
    await story.wait_until(lambda: expect_committed(story, (topic, 0), -1))
    await group.expect_members("m1")


@case("cg.topic.made-anew", 2, required_settings=ORDINARY)
async def subscribed_topic_is_made_anew(story: StoryContext) -> None:
    """A topic that is deleted and created again has another id: its partitions are released and given again."""
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group)
    topic = await group.create_topic("nx", 1)
    answer = await group.beat("m1", group.epoch, names=(SIX_TOPIC, topic))
    group.epoch = answer.response.member_epoch
    await group.delete_topic(topic)
    await group.create_topic("nx", 1)
    answer = await group.beat("m1", group.epoch)
    expect_answer(answer, epoch=group.epoch, assignment={SIX_TOPIC: [*range(6)]})
    back = await group.beat("m1", group.epoch, owned={SIX_TOPIC: [*range(6)]})
    expect_answer(back, epoch=group.epoch + 1, assignment={SIX_TOPIC: [*range(6)], topic: [0]})
