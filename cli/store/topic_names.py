"""The names of topics by their ids, under which groups of the consumer protocol keep them."""

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from regroup.coordinator.serialization import UNREADABLE_ERRORS, damaged
from regroup.server.cluster.image import SNAPSHOT_VERSION, decode_cluster_snapshot
from regroup.storage.records import NewRecord
from regroup.storage.store import EventStore


class _TopicCreated(msgspec.Struct):
    """The fields of the event `topic-created` that are read here."""

    name: str
    topic_id: str


def learn_topics(names: dict[str, str], records: Iterable[NewRecord]) -> None:
    """Add to `names` the topics that these events create. An event that cannot be decoded adds none."""
    for record in records:
        if record.type == "topic-created" and record.group is None:
            with suppress(ValueError):
                created = msgspec.json.decode(record.payload, type=_TopicCreated)
                names[created.topic_id] = created.name


async def topic_names_of(store: EventStore) -> dict[str, str]:
    """The names of all topics that a store knows, those included that were deleted since its first event. Raises
    StoreError, also for a snapshot that cannot be decoded."""
    try:
        return await _read_topic_names(store)
    except UNREADABLE_ERRORS as error:
        raise damaged("The history of the topics", error) from error


async def _read_topic_names(store: EventStore) -> dict[str, str]:
    names: dict[str, str] = {}
    _, snapshots = await store.load_snapshots()
    for snapshot in snapshots:
        if snapshot.group is None and snapshot.version == SNAPSHOT_VERSION:
            names |= {topic.topic_id: topic.name for topic in decode_cluster_snapshot(snapshot).topics.values()}
    learn_topics(names, [record async for record in store.read(group=None, after=store.trimmed_through)])
    return names
