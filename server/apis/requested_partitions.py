"""The partitions that an offset commit or offset deletion names, and the response with their error codes in Kafka's
order.

What does not exist is refused here and comes first in the response, by topic; what exists is for the coordinator, whose
codes follow. A topic that is named several times has one entry, unless the request names nothing that is refused: then
the response has the entries of the request. A topic of which nothing is refused and nothing exists has no entry.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from regroup.protocol.errors import ErrorCode
from regroup.server.cluster.image import Topic

TopicKey: TypeAlias = str | bytes
"""A topic as request and response name it: by name (str) or by id (bytes)."""


class PartitionWithIndex(Protocol):
    """A partition in a request: any structure with a partition index."""

    @property
    def partition_index(self) -> int: ...


Partition = TypeVar("Partition", bound=PartitionWithIndex)


class AnsweredTopic(NamedTuple):
    """A topic in the response, with its partition indexes and their error codes."""

    key: TopicKey
    codes: list[tuple[int, int]]


class RequestedPartitions:
    """Collects the topics and partitions that a request names, and then makes the topics of the response from the error
    codes."""

    def __init__(self) -> None:
        self._refused: dict[TopicKey, list[tuple[int, int]]] = {}
        self._existing: list[tuple[TopicKey, Topic, list[int]]] = []

    @property
    def keys_if_all_exist(self) -> list[TopicKey] | None:
        """The topics of the request with partitions, if all of these exist and no topic is named twice; else None."""
        keys = [key for key, _, _ in self._existing]
        return None if self._refused or (len(keys) > 1 and len(set(keys)) < len(keys)) else keys

    def add(
        self, key: TopicKey, topic: Topic | None, partitions: Sequence[Partition], *, unknown: ErrorCode
    ) -> Sequence[Partition]:
        """Add a topic of the request and return its partitions that exist. The others get an error; `unknown` is the
        error code if the topic itself does not exist (None)."""
        if topic is None:
            self._refuse(key, partitions, unknown)
            return []
        indexes = [each.partition_index for each in partitions]
        existing = partitions
        if indexes and (min(indexes) < 0 or max(indexes) >= topic.partitions):
            existing = [each for each in partitions if 0 <= each.partition_index < topic.partitions]
            missing = (each for each in partitions if not 0 <= each.partition_index < topic.partitions)
            self._refuse(key, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            indexes = [each.partition_index for each in existing]
        if existing:
            self._existing.append((key, topic, indexes))
        return existing

    def _refuse(self, key: TopicKey, partitions: Iterable[PartitionWithIndex], code: ErrorCode) -> None:
        codes = self._refused.setdefault(key, [])
        codes += [(each.partition_index, code) for each in partitions]

    def answer(self, code_of: Callable[[str, int], int]) -> Iterator[AnsweredTopic]:
        """Make the topics of the response. `code_of(topic, index)` returns the coordinator's error code for a
        partition; it is called once for each existing partition, in the order of the request."""
        answered = [
            AnsweredTopic(key, [(index, code_of(topic.name, index)) for index in indexes])
            for key, topic, indexes in self._existing
        ]
        if not self._refused:
            yield from answered
            return
        merged = {key: list(codes) for key, codes in self._refused.items()}
        for key, codes in answered:
            merged.setdefault(key, []).extend(codes)
        for key, codes in merged.items():
            yield AnsweredTopic(key, codes)
