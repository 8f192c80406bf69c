"""Stories about deleting a topic for which groups have committed offsets."""

from regroup.conformance.harness.broker_under_test import FOO_0
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import FetchedOffset, expect
from regroup.conformance.harness.offsets import TransactionalProducer, admin_commit, expect_committed, expect_fetched
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

LAST_VERSION_BY_NAME = 5
"""The last version of DeleteTopics that names topics by their names only."""


async def create_topic(story: StoryContext, topic: str) -> None:
    """Create a topic of the story's own. If one of this name is being deleted, wait until that is done."""
    request = CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=2, replication_factor=1)])

    async def create() -> None:
        expect((await story.send(request, CreateTopicsResponse)).topics[0], error=E.NONE)

    await story.wait_until(create)


async def delete_topic(story: StoryContext, topic: str) -> None:
    """Delete a topic and wait for the controller's response.

    The coordinator drops the topic's offsets a little later.
    """
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
    expect((await story.send(request, DeleteTopicsResponse, version=LAST_VERSION_BY_NAME)).responses[0], error=E.NONE)


async def expect_only_foo_0(story: StoryContext, offset: int) -> None:
    """Expect that the group has committed this offset of foo-0, and no other offset."""
    await expect_fetched(story, {FOO_0: FetchedOffset(offset)}, all_topics=True)


@case("offset-fetch.deleted-topic", 2)
async def delete_topic_with_committed_offsets(story: StoryContext) -> None:
    """Deleting a topic deletes its committed offsets; a new topic of the same name starts without offsets."""
    topic = f"{story.group_id}-topic"
    await create_topic(story, topic)
    await story.wait_until(lambda: admin_commit(story, {(topic, 0): 100, (topic, 1): 7, FOO_0: 5}))
    await delete_topic(story, topic)
    await story.wait_until(lambda: expect_only_foo_0(story, 5))
    await create_topic(story, topic)
    await story.wait_until(lambda: admin_commit(story, {(topic, 1): 1}))
    await expect_committed(story, (topic, 0), -1)
    await expect_committed(story, (topic, 1), 1)


@case("txn-offset.deleted-topic", 2)
async def delete_topic_with_pending_transactional_offsets(story: StoryContext) -> None:
    """Deleting a topic also deletes its pending transactional offsets."""
    topic = f"{story.group_id}-topic"
    await create_topic(story, topic)
    await story.wait_until(lambda: admin_commit(story, {(topic, 0): 1, FOO_0: 1}))
    producer = await TransactionalProducer.begin(story)
    await producer.send_offsets({(topic, 0): 100, (topic, 1): 100, FOO_0: 100})
    await delete_topic(story, topic)
    await story.wait_until(lambda: expect_only_foo_0(story, 1))
    await producer.end_transaction(committed=True)
    await story.wait_until(lambda: expect_only_foo_0(story, 100))
