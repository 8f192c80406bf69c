"""The topics of one random course, which grow, appear and disappear while its members are subscribed to them.

They have the same names and ids on both brokers: the second broker, which is steered, creates them with the ids that
the first one has given them.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol

from regroup.conformance.harness.expect import ExpectationFailed
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.client import ConnectionLost
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.message import Message
from regroup.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

FIRST, SECOND, LATE = "a", "b", "c"
"""The ends of the names: two topics exist at the start, and the third is created in the course."""
PARTITIONS: Final = {FIRST: 2, SECOND: 3, LATE: 2}
MOST_PARTITIONS: Final = 7
DELETE_BY_NAME_VERSION: Final = 5
TIMEOUT_MS: Final = 30_000
APPLY_PAUSE_S: Final = 0.3
"""Seconds until the coordinator knows the topics of the start, too. Nothing that a client can ask shows that moment."""


class TopicSteering(Protocol):
    """A broker that creates topics with given ids."""

    def create_topic(self, name: str, partitions: int, topic_id: bytes) -> None:
        """Create a topic with this id."""


class CourseTopics:
    """The topics of a course on one broker.

    `prefix` begins their names; `known_ids` are the topic ids on the first broker, which the second one is to use.
    """

    def __init__(
        self,
        story: StoryContext,
        prefix: str,
        steering: TopicSteering | None = None,
        known_ids: Mapping[str, bytes] | None = None,
    ) -> None:
        self._story = story
        self._steering = steering
        self._known_ids = known_ids or {}
        self._changes: list[asyncio.Task[None]] = []
        self.prefix = prefix
        self.ids: dict[str, bytes] = {}
        """The ids of the topics that exist, or have existed, by name."""
        self.partitions: dict[str, int] = {}
        """The numbers of partitions of the topics that exist, by name."""

    def name(self, end: str) -> str:
        """The full name of a topic of this course: the prefix of the course, and `end`."""
        return f"{self.prefix}-{end}"

    async def create_first(self) -> None:
        """Create the topics that exist at the start."""
        await asyncio.gather(*(self._create(self.name(end), PARTITIONS[end]) for end in (FIRST, SECOND)))
        await asyncio.sleep(APPLY_PAUSE_S)

    # Changes whose responses are not compared: how long a broker takes for them is a matter of the machine.

    def grow(self, end: str, more: int) -> None:
        """Give the topic whose name ends with `end` so many more partitions, unless it does not exist or has enough."""
        name = self.name(end)
        count = self.partitions.get(name, MOST_PARTITIONS) + more
        if count <= MOST_PARTITIONS:
            self.partitions[name] = count
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=count)], timeout_ms=TIMEOUT_MS
            )
            self._begin(request, CreatePartitionsResponse)

    def create_late(self) -> None:
        """Create the third topic, unless it was created before."""
        if (name := self.name(LATE)) not in self.partitions and name not in self.ids:
            self.partitions[name] = PARTITIONS[LATE]
            self._changes.append(asyncio.ensure_future(self._create(name, PARTITIONS[LATE])))

    def delete(self, end: str) -> None:
        """Delete the topic whose name ends with `end`, if it exists."""
        if self.partitions.pop(self.name(end), None) is not None:
            self._begin(self._deletion([self.name(end)]), DeleteTopicsResponse, DELETE_BY_NAME_VERSION)

    async def delete_all(self) -> None:
        """Delete the topics of the course that still exist, after the course."""
        for change in self._changes:
            change.cancel()
        if self.partitions:
            await self._story.send(
                self._deletion([*self.partitions]), DeleteTopicsResponse, version=DELETE_BY_NAME_VERSION
            )

    def _deletion(self, names: list[str]) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS)

    def _begin(self, request: Message, response_type: type[Message], version: int | None = None) -> None:
        async def change() -> None:
            with suppress(ExpectationFailed, ConnectionLost):
                await self._story.send(request, response_type, version=version, sender="admin")

        self._changes.append(asyncio.ensure_future(change()))

    async def _create(self, name: str, partitions: int) -> None:
        self.partitions[name] = partitions
        if self._steering is not None and name in self._known_ids:
            self._steering.create_topic(name, partitions, self._known_ids[name])
            self.ids[name] = self._known_ids[name]
            return
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        response = await self._story.send(request, CreateTopicsResponse, sender="admin")
        if response.topics[0].error_code == E.NONE:
            self.ids[name] = response.topics[0].topic_id
