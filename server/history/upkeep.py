"""Keeps the history of a running cluster in bounds: snapshots while events come, and a trim of what is old enough."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from regroup.coordinator.runtime.logger import get_logger
from regroup.server.history.trim import newest_cut_before
from regroup.storage.errors import StoreError, StoreLost
from regroup.storage.journal import Journal
from regroup.storage.store import EventStore

SNAPSHOT_CHECK_INTERVAL_S: Final = 5.0
"""Interval between checks whether the next snapshot is due."""
MAX_TRIM_INTERVAL_S: Final = 60.0
"""The longest interval between checks whether events are old enough to be trimmed."""
INTERVALS_OF_KEPT_TIME: Final = 20
"""How many checks, and snapshots if there are new events, come in the time for which events are kept."""
MAX_SNAPSHOT_INTERVAL_MS: Final = 3_600_000
"""With a time for which events are kept, a snapshot is due after so long: only up to a snapshot they can be trimmed."""
PAUSE_FACTOR: Final = 3
MIN_PAUSE_S: Final = 0.01
MAX_PAUSE_S: Final = 0.25
"""After a portion of a trim comes a pause of `PAUSE_FACTOR` times its duration, within these bounds."""
PORTIONS_PER_CHECKPOINT: Final = 16
"""A portion takes about 1 MiB of SQLite's write-ahead log, which so stays small while a long history is trimmed."""

log = get_logger("broker-cluster")


class RunningHistory(Protocol):
    """The parts of a running cluster that HistoryUpkeep uses to take snapshots and to trim the history."""

    store: EventStore
    journal: Journal
    is_consistent: bool
    """Whether memory and store agree: not while a failed store is opened again."""
    last_snapshot_position: int
    """Position of the last snapshot that this process has taken; 0 before the first."""

    async def take_snapshot(self) -> None: ...


class HistoryUpkeep:
    """Takes a snapshot after every `snapshot_interval_records` records (0: not by their number), and trims events that
    are older than `keep_ms` milliseconds (0: never).

    Events are trimmed only up to a position at which a snapshot is stored, in portions between which commits go on.
    """

    def __init__(
        self, history: RunningHistory, now_ms: Callable[[], int], *, snapshot_interval_records: int, keep_ms: int
    ) -> None:
        self._history = history
        self._now_ms = now_ms
        self._interval_records = snapshot_interval_records
        self._keep_ms = keep_ms
        self._last_snapshot_ms = now_ms()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start two tasks in the running event loop: one that takes snapshots, unless both the snapshot interval and
        `keep_ms` are 0, and one that trims old events, if `keep_ms` is above 0."""
        if self._interval_records or self._keep_ms:
            self._tasks.append(asyncio.create_task(self._take_snapshots(), name="snapshots"))
        if self._keep_ms:
            self._tasks.append(asyncio.create_task(self._trim(), name="trim"))

    async def stop(self) -> None:
        """Cancel the tasks that `start` began and wait for their end, even if a trim is incomplete. The next process
        that opens the store completes such a trim."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take_snapshots(self) -> None:
        while True:
            await asyncio.sleep(SNAPSHOT_CHECK_INTERVAL_S)
            if self._history.is_consistent and self._is_snapshot_due():
                self._last_snapshot_ms = self._now_ms()
                await _attempt("snapshot-failed", self._history.take_snapshot())

    def _is_snapshot_due(self) -> bool:
        new_records = self._history.journal.last_position - self._history.last_snapshot_position
        if self._keep_ms and new_records:
            interval_ms = min(self._keep_ms // INTERVALS_OF_KEPT_TIME, MAX_SNAPSHOT_INTERVAL_MS)
            if not self._history.last_snapshot_position or self._now_ms() - self._last_snapshot_ms >= interval_ms:
                return True
        return 0 < self._interval_records <= new_records

    async def _trim(self) -> None:
        interval_s = min(self._keep_ms / 1000 / INTERVALS_OF_KEPT_TIME, MAX_TRIM_INTERVAL_S)
        while True:
            await asyncio.sleep(interval_s)
            # Snapshots of a former version would not do. The first one of this process has all groups.
            if self._history.is_consistent and self._history.last_snapshot_position:
                await _attempt("history-not-trimmed", self._trim_once())

    async def _trim_once(self) -> None:
        """Trim the events that are older than `keep_ms`, up to a snapshot, and delete from the store's file the trimmed
        data that is still in it, also that of an earlier process."""
        store = self._history.store
        try:
            cut = await newest_cut_before(store, self._now_ms() - self._keep_ms)
            if cut > store.trimmed_through:
                count = await store.trim(cut + 1)
                log.info("history-trimmed", events=count, begins_after=cut)
            await self._delete_trimmed(store)
        except StoreLost as error:
            self._history.journal.fail(error)
            raise

    async def _delete_trimmed(self, store: EventStore) -> None:
        portions, now_s = 0, asyncio.get_running_loop().time
        began_s = now_s()
        while await store.delete_trimmed():
            portions += 1
            if portions % PORTIONS_PER_CHECKPOINT == 0:
                await store.checkpoint()
            await asyncio.sleep(min(max(PAUSE_FACTOR * (now_s() - began_s), MIN_PAUSE_S), MAX_PAUSE_S))
            began_s = now_s()
        if portions:
            await store.checkpoint()


async def _attempt(failure: str, work: Coroutine[Any, Any, None]) -> None:
    """Await `work`. If it raises an exception, log that under the event name `failure` and do not raise it, because the
    next attempt may succeed."""
    try:
        await work
    except StoreError as error:
        log.warning(failure, error=str(error))
    except Exception:
        log.exception(failure)
