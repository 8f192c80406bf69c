"""A topic is deleted: what was committed of it means nothing any more."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import Partition, offsets_in, same
from regroup.conformance.harness.offsets import Producer, committed_outside, fetches, offset, stands_at
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import FOO
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

BY_NAME = 5
"""The last version of DeleteTopics in which a topic goes by its name alone."""

FOO_0 = (FOO, 0)


async def makes_topic(tell: Story, topic: str) -> None:
    """A topic of the story's own; another may have had its name before."""
    request = CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=2, replication_factor=1)])

    async def made() -> None:
        answer = await tell.ask(request, CreateTopicsResponse)
        same(f"the code for {topic}", E.NONE, answer.topics[0].error_code)

    await tell.until(made)


async def deletes_topic(tell: Story, topic: str) -> None:
    """Kafka's controller says yes at once; that the coordinator hears of it takes a moment."""
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
    answer = await tell.ask(request, DeleteTopicsResponse, version=BY_NAME)
    same(f"the code for {topic}", E.NONE, answer.responses[0].error_code)


async def nothing_is_committed_but(tell: Story, place: Partition, committed: int) -> None:
    """Differs if anything else is."""
    same("everything that is committed", {place: offset(committed)}, offsets_in(await fetches(tell, None)))


@case("offset-fetch.deleted-topic", 2)
async def topic_is_deleted(tell: Story) -> None:
    """With a topic goes what was committed of it; a later topic of the same name begins without offsets."""
    own = f"{tell.group}-topic"
    await makes_topic(tell, own)
    await tell.until(lambda: committed_outside(tell, {(own, 0): 100, (own, 1): 7, FOO_0: 5}))
    await deletes_topic(tell, own)
    await tell.until(lambda: nothing_is_committed_but(tell, FOO_0, 5))
    await makes_topic(tell, own)
    await tell.until(lambda: committed_outside(tell, {(own, 1): 1}))
    await stands_at(tell, (own, 0), -1)
    await stands_at(tell, (own, 1), 1)


@case("txn-offset.deleted-topic", 2)
async def topic_of_an_open_transaction_is_deleted(tell: Story) -> None:
    """What an open transaction would have committed of a deleted topic goes with it too."""
    own = f"{tell.group}-topic"
    await makes_topic(tell, own)
    await tell.until(lambda: committed_outside(tell, {(own, 0): 1, FOO_0: 1}))
    producer = Producer(tell, "producer")
    await producer.begins()
    await producer.writes_well({(own, 0): 100, (own, 1): 100, FOO_0: 100})
    await deletes_topic(tell, own)
    await tell.until(lambda: nothing_is_committed_but(tell, FOO_0, 1))
    await producer.ends(committed=True)
    await tell.until(lambda: nothing_is_committed_but(tell, FOO_0, 100))
