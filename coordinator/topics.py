"""The topics of the cluster at one time, as a value that commands carry."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from regroup.coordinator.consumer_group import TopicId

MAX_HASHED_NAMES: Final = 200_000
"""Names of all lists whose digests are kept: without a limit each new subscription would take memory until topics
change."""


class TopicMetadata(NamedTuple):
    """A topic as the coordinator knows it: its id, its name and its number of partitions."""

    topic_id: TopicId
    name: str
    partitions: int


class TopicsImage:
    """All topics of the cluster at one time. An image never changes: a change of the topics makes another image.

    `version` grows when a topic is created.
    """

    def __init__(self, topics: Iterable[TopicMetadata] = (), version: int = 0) -> None:
        self.by_name = {topic.name: topic for topic in topics}
        self.by_id = {topic.topic_id: topic for topic in self.by_name.values()}
        self.version = version
        self._hashes: dict[tuple[str, ...], int] = {}
        self._hashed_names = 0

    def metadata_hash(self, names: tuple[str, ...]) -> int:
        """A digest of the ids, names and numbers of partitions of those of the named topics that exist; 0 if none does.

        Kafka has XXH3 here (KIP-1101); only equality can be observed. Brokers here have no racks.
        """
        known = self._hashes.get(names)
        if known is None:
            known = self._metadata_hash(names)
            self._keep(names, known)
        return known

    def _keep(self, names: tuple[str, ...], digest: int) -> None:
        self._hashed_names += 1 + len(names)
        if self._hashed_names > MAX_HASHED_NAMES:
            self._hashes.clear()
            self._hashed_names = 1 + len(names)
        self._hashes[names] = digest

    def _metadata_hash(self, names: tuple[str, ...]) -> int:
        found = [self.by_name[name] for name in sorted(names) if name in self.by_name]
        if not found:
            return 0
        digest = blake2b(digest_size=8)
        for topic in found:
            digest.update(f"{topic.topic_id}\0{topic.name}\0{topic.partitions}\0".encode())
        return int.from_bytes(digest.digest(), signed=True)

    def ids_of(self, names: Iterable[str]) -> list[TopicId]:
        """The ids of the topics with these names; names of topics that do not exist are skipped."""
        return [self.by_name[name].topic_id for name in names if name in self.by_name]


NO_TOPICS = TopicsImage()
