"""Requests to create topics, and the topics that there are."""

from regroup.protocol.messages.cluster import (
    MetadataRequest,
)
from regroup.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)


def wanted(name: str, partitions: int = 1, copies: int = 1, **more) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=copies, **more)


def config(name: str, value: str | None) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=name, value=value)]


async def create(client, *topics: CreatableTopic, **more) -> list[int]:
    response = await client.call(CreateTopicsRequest(topics=list(topics), **more))
    return [topic.error_code for topic in response.topics]


async def names(client) -> dict[str, int]:
    response = await client.call(MetadataRequest(topics=None))
    return {topic.name: len(topic.partitions) for topic in response.topics}
