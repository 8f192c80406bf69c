"""Opens the store of a cluster: at the start, and, once it has failed (a full disk, for example), until it works again.

The groups are being loaded meanwhile, as after a crash of Kafka's coordinator.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from regroup.coordinator.runtime.logger import get_logger
from regroup.server.clock import Clock
from regroup.server.cluster.group_router import GroupRouter
from regroup.server.cluster.loading import StoredClusterState, load_cluster_state
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.transaction_coordinator import TransactionCoordinator
from regroup.server.store_checks import check_new_epoch, check_reopened_cluster, check_reopened_position
from regroup.storage.errors import StoreError, StoreFailed
from regroup.storage.journal import Journal
from regroup.storage.store import EventStore

OpenStore: TypeAlias = Callable[[], Awaitable[EventStore]]

INITIAL_REOPEN_DELAY_S: Final = 0.5
"""Delay before a failed store is opened again; it doubles with every failed attempt."""
MAX_REOPEN_DELAY_S: Final = 5.0

log = get_logger("broker-cluster")


class OpenedHistory(NamedTuple):
    """The result of opening a store: the store, the cluster state read from it, and the coordinator epoch with which
    the cluster's coordinators begin."""

    store: EventStore
    stored: StoredClusterState
    coordinator_epoch: int
    time_gap_ms: int
    """How much later the clock is than the last event; 0 without events."""


async def open_history(open_store: OpenStore, clock: Clock, new_uuid: Callable[[], UUID]) -> OpenedHistory:
    """Open a store and load the cluster state from it. If the store's last event is later than the time of `clock`, the
    clock continues from that event. Raises StoreError."""
    store = await open_store()
    time_gap_ms = 0
    try:
        async for record in store.read(after=max(store.last_position - 1, store.trimmed_through)):
            time_gap_ms = clock() - record.at_ms
            clock.advance_to(record.at_ms)
        stored = await load_cluster_state(store, new_uuid)
        coordinator_epoch = await store.next_coordinator_epoch()
        check_new_epoch(coordinator_epoch, (await store.heads()).values())
    except BaseException:
        await store.close()
        raise
    return OpenedHistory(store, stored, coordinator_epoch, time_gap_ms)


class FailedHistory(Protocol):
    """The parts of a cluster that StoreReopening uses after the cluster's store has failed."""

    store: EventStore
    journal: Journal
    state: ClusterState
    router: GroupRouter
    transactions: TransactionCoordinator
    is_consistent: bool
    """Whether memory and store agree: set once the store works again."""


class StoreReopening:
    """Opens a failed store again until it works, in a task, and loads topics and groups from it."""

    def __init__(self, history: FailedHistory, open_store: OpenStore) -> None:
        self._history = history
        self._open_store = open_store
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task that opens the failed store again, unless that task is running already."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._reopen(), name="reopen the store")

    async def stop(self) -> None:
        """Cancel the task that opens the failed store, and wait for its end. The store may then be closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _reopen(self) -> None:
        history = self._history
        with suppress(StoreError):
            await history.store.close()
        delay_s = INITIAL_REOPEN_DELAY_S
        for attempt in count(1):
            await asyncio.sleep(delay_s)
            try:
                await self._load()
            except Exception as error:  # whatever it is, the next attempt may succeed
                delay_s = min(2 * delay_s, MAX_REOPEN_DELAY_S)
                if attempt.bit_count() == 1:  # the 1st, 2nd, 4th, 8th …: a disk may stay full for days
                    trace = None if isinstance(error, StoreError) else error
                    log.warning("store-still-fails", tries=attempt, error=str(error), exc_info=trace)
                history.journal.fail(error if isinstance(error, StoreError) else StoreFailed(repr(error)))
                with suppress(StoreError):
                    await history.store.close()
            else:
                history.is_consistent = True
                log.info("store-reopened", position=history.store.last_position)
                return

    async def _load(self) -> None:
        history = self._history
        history.store = await self._open_store()
        check_reopened_position(history.store.last_position, acknowledged=history.journal.durable_position)
        stored = await load_cluster_state(history.store, history.state.new_uuid)
        check_reopened_cluster(stored.cluster_id, expected=history.state.cluster_id)
        coordinator_epoch = await history.store.next_coordinator_epoch()
        history.journal.reopen(history.store)
        history.state.reload(stored, coordinator_epoch)
        await history.router.start()
        history.transactions.start()
        if history.journal.failure:
            raise history.journal.failure
