"""Loads the cluster from its store: the topics, folded from the newest snapshot on, and the cluster id."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from regroup.coordinator.serialization import UNREADABLE_ERRORS, damaged
from regroup.server.cluster.events import decode_cluster_event
from regroup.server.cluster.image import (
    SNAPSHOT_VERSION,
    ClusterImage,
    decode_cluster_snapshot,
    evolve_cluster,
    uuid_text,
)
from regroup.storage.errors import StoreDamaged, UnsupportedStoreVersion
from regroup.storage.records import Head
from regroup.storage.store import EventStore

CLUSTER_ID_PREFIX: Final = "regroup-"
"""Begins the cluster id of every new store: a client sees by it that it does not speak to a real Kafka."""
_CLUSTER_ID = "cluster-id"
_EVENTS_PER_FOLD = 1_000
"""Events that a load folds at once, so that it does not copy all topics for each of them."""


@dataclass(frozen=True, slots=True)
class StoredClusterState:
    """The state of the cluster as loaded from a store: the image folded from its events, the last event, and the
    cluster id."""

    image: ClusterImage
    head: Head
    cluster_id: str


async def load_cluster_state(store: EventStore, new_uuid: Callable[[], UUID]) -> StoredClusterState:
    """Fold the cluster's history, from the newest snapshot on. A new store gets its cluster id here.

    Raises StoreError, also if the snapshot is of another version and the history before it has been trimmed.
    """
    cut, snapshots = await store.load_snapshots()
    snapshot = next((each for each in snapshots if each.group is None), None)
    if snapshot is not None and snapshot.version != SNAPSHOT_VERSION:
        if store.trimmed_through:
            raise UnsupportedStoreVersion(
                "Another version of regroup wrote the snapshots of this store: read it with that one."
            )
        snapshot = None
    image = decode_cluster_snapshot(snapshot) if snapshot else ClusterImage()
    event_number = snapshot.event_number if snapshot else 0
    try:
        events = []
        async for record in store.read(group=None, after=cut if snapshot else store.trimmed_through):
            events.append(decode_cluster_event(record))
            event_number += 1
            if len(events) == _EVENTS_PER_FOLD:
                image, events = evolve_cluster(image, *events), []
        image = evolve_cluster(image, *events)
    except UNREADABLE_ERRORS as error:
        raise damaged("The history of the topics", error) from error
    heads = await store.heads()
    head = heads.get(None, Head(event_number=0, coordinator_epoch=0, position=0))
    if event_number != head.event_number:
        raise StoreDamaged(
            f"The history of the topics ends with event {head.event_number}, and snapshot and events lead to event "
            f"{event_number}. `regroup verify` shows what is missing."
        )
    return StoredClusterState(image, head, await _load_cluster_id(store, new_uuid))


async def _load_cluster_id(store: EventStore, new_uuid: Callable[[], UUID]) -> str:
    stored = await store.get_value(_CLUSTER_ID)
    if stored is None:
        cluster_id = CLUSTER_ID_PREFIX + uuid_text(new_uuid())
        await store.put_value(_CLUSTER_ID, cluster_id.encode())
        return cluster_id
    try:
        return stored.decode("ascii")
    except UnicodeDecodeError as error:
        raise damaged("The cluster id", error) from error
