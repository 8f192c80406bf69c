"""`EventStore`, the interface of every store of records, and the checks that its implementations share.

A group's records are numbered without a gap, and all records have consecutive positions in the order of commits.
"""

import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import Final, Self, TypeVar

from regroup.storage.errors import CoordinatorFenced, EventNumberConflict, PositionTrimmed
from regroup.storage.records import ExchangeBlock, Head, NewExchangeBlock, NewRecord, Record, Snapshot

__all__ = ["AnyGroup", "ANY_GROUP", "EventStore", "follow"]


Value = TypeVar("Value")


class AnyGroup(Enum):
    """The type of `ANY_GROUP`.

    No string or None can stand for every group: any string may be a group id, and None selects the records of the
    cluster.
    """

    ANY = "any"


ANY_GROUP: Final = AnyGroup.ANY
"""Selects the records of every group and those of the cluster."""


class EventStore(ABC):
    """An append-only history of records, with snapshots and a few named values beside it.

    Only one process may write. Any method may raise a `StoreError`; the store then holds what it held before.
    """

    @property
    @abstractmethod
    def last_position(self) -> int:
        """Position of the last committed record; 0 if none was ever appended.

        In a read-only store it is brought up to date by each read, with the commits of other processes.
        """

    @property
    @abstractmethod
    def trimmed_through(self) -> int:
        """Position of the last record that has been trimmed; 0 if none has been.

        All records up to and including it are gone.
        """

    @abstractmethod
    async def append(self, records: Sequence[NewRecord]) -> int:
        """Store all of these records or none, at consecutive positions; returns the position of the last.

        Raises EventNumberConflict and CoordinatorFenced.
        """

    @abstractmethod
    def read(
        self,
        *,
        group: str | AnyGroup | None = ANY_GROUP,
        after: int = 0,
        until: int | None = None,
        types: Collection[str] | None = None,
        allow_gaps: bool = False,
    ) -> AsyncIterator[Record]:
        """Yield records with after < position <= until, by position, up to the last one committed at the start.

        They are read in chunks, and no transaction is open between two chunks, so a slow reader blocks no writer.
        Raises PositionTrimmed if records after `after` have been trimmed, and StoreDamaged if a record is missing,
        unless `allow_gaps` is set.
        """

    @abstractmethod
    async def heads(self) -> dict[str | None, Head]:
        """The event number, coordinator epoch and position of every group's last record, also if it was trimmed: the
        cluster first, then groups by id."""

    @abstractmethod
    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        """Declare that each group's newest snapshot covers its records up to position `cut`.

        Groups without a record since the last cut need no new one. The same cut may be saved again.
        Raises ValueError if the cut lies outside the history or a snapshot lies after the cut.
        """

    @abstractmethod
    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        """The newest cut at or before position `at`, and each group's newest snapshot up to that cut.

        The cut is 0 if there is none. Without `at` it is the newest of all.
        """

    @abstractmethod
    async def cuts(self) -> list[int]:
        """The positions of all cuts, in order. No record after a cut has been trimmed."""

    @abstractmethod
    async def trim(self, before: int) -> int:
        """Let the history begin at `before`: earlier records and the cuts before them can no longer be read.

        Returns how many records were trimmed. Their space is free once `delete_trimmed` has deleted them. Raises
        SnapshotMissing if no cut covers them.
        """

    @abstractmethod
    async def delete_trimmed(self) -> bool:
        """Delete a portion of the records that were trimmed; returns whether there may be more.

        A commit beside it waits for one portion at most. After a crash the next call goes on.
        """

    @abstractmethod
    async def put_value(self, name: str, value: bytes) -> None:
        """Store a small value under a name; it replaces the value that was there."""

    @abstractmethod
    async def get_value(self, name: str) -> bytes | None:
        """The value that is stored under a name; None if there is none."""

    @abstractmethod
    async def coordinator_epoch(self) -> int:
        """The coordinator epoch that `next_coordinator_epoch` returned last; 0 if it was never called."""

    @abstractmethod
    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        """Store a block of exchanges, and delete the oldest blocks while all of them together exceed `max_bytes`.

        The newest block is kept in any case. A block survives a crash of the process; a power failure may lose it.
        """

    @abstractmethod
    def read_exchanges(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        """Yield the blocks with exchanges between these times, both included, by number. Raises StoreDamaged."""

    @abstractmethod
    async def append_observations(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        """Store a block of observations of a simulation, bounded as `append_exchanges` bounds exchanges."""

    @abstractmethod
    def read_observations(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        """Yield the blocks with observations between these times, as `read_exchanges` does. Raises StoreDamaged."""

    @abstractmethod
    async def next_coordinator_epoch(self) -> int:
        """Return the next coordinator epoch: 1, 2, 3 … It is stored durably before this returns, so none is returned
        twice."""

    has_checkpoints: bool = True
    """Whether `checkpoint` does anything. If not, `Journal` never calls it, and starts no timer for it."""

    @abstractmethod
    async def checkpoint(self) -> None:
        """Do maintenance now that would delay a later commit, such as moving SQLite's write-ahead log into its file.
        `Journal` calls this when no record waits to be committed."""

    @abstractmethod
    async def close(self) -> None:
        """Close the store and its file. A second call has no effect."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def append_history(store: EventStore, records: Sequence[Record]) -> None:
    """Append all records of another store, and give out the coordinator epochs that they have.

    Raises what `EventStore.append` and `next_coordinator_epoch` raise.
    """
    await store.append(records)
    newest = max((record.coordinator_epoch for record in records), default=0)
    while await store.coordinator_epoch() < newest:
        await store.next_coordinator_epoch()


async def follow(store: EventStore, *, after: int = 0, pause: Callable[[], Awaitable[object]]) -> AsyncIterator[Record]:
    """Yield every record after this position, and new ones as they are committed, by any process. Never ends.

    `pause` is awaited when there is no new record, for example `lambda: asyncio.sleep(0.1)`; no transaction is open
    meanwhile. Raises PositionTrimmed if the writer trims records that were not read yet.
    """
    while True:
        async for record in store.read(after=after):
            after = record.position
            yield record
        await pause()


async def again_if_trimmed(read: Callable[[], Awaitable[Value]]) -> Value:
    """The result of `read`, which is called a second time if records were trimmed while it read them.

    Raises PositionTrimmed if the second call does.
    """
    try:
        return await read()
    except PositionTrimmed:
        return await read()


def trimmed_text(trimmed_through: int) -> str:
    """Words that say where the history begins, to be added to a sentence; empty if nothing was trimmed."""
    return f"; the events up to position {trimmed_through} have been trimmed" if trimmed_through else ""


_NO_HEAD: Final = Head(event_number=0, coordinator_epoch=0, position=0)


class GroupHeads:
    """The last record of every group, kept in memory, so that new records are checked without reading the file."""

    def __init__(self, heads: Mapping[str | None, Head], last_position: int) -> None:
        self.heads = dict(heads)
        self.last_position = last_position

    def check(self, records: Iterable[NewRecord]) -> dict[str | None, Head]:
        """The last record of each group that occurs in `records`, as it will be once these records are stored.

        Raises EventNumberConflict, CoordinatorFenced.
        """
        replaced: dict[str | None, Head] = {}
        for position, record in enumerate(records, self.last_position + 1):
            group = record.group
            head = replaced.get(group) or self.heads.get(group, _NO_HEAD)
            if record.coordinator_epoch < head.coordinator_epoch:
                raise CoordinatorFenced(group, record.coordinator_epoch, head.coordinator_epoch)
            if record.event_number != head.event_number + 1:
                raise EventNumberConflict(group, record.event_number, head.event_number + 1)
            replaced[group] = Head(record.event_number, record.coordinator_epoch, position)
        return replaced

    def advance(self, replaced: Mapping[str | None, Head], count: int) -> int:
        """Replace the last records of groups by `replaced`, the result of `check`, once its `count` records are stored;
        returns the position of the last."""
        self.heads.update(replaced)
        self.last_position += count
        return self.last_position


def sorted_by_group(heads: Mapping[str | None, Head]) -> dict[str | None, Head]:
    """The entries in the order in which groups are listed everywhere: the cluster first, then groups by id."""
    return dict(sorted(heads.items(), key=lambda item: (item[0] is not None, item[0] or "")))


def check_cut(cut: int, snapshots: Sequence[Snapshot], *, trimmed_through: int, last_position: int) -> None:
    """Raise ValueError for a cut outside the history, or for a snapshot after the cut."""
    if not trimmed_through <= cut <= last_position:
        raise ValueError(f"invalid cut: {cut}; it must lie between {trimmed_through} and {last_position}")
    late = next((snapshot for snapshot in snapshots if snapshot.position > cut), None)
    if late is not None:
        raise ValueError(f"the snapshot of {late.group!r} is at position {late.position}, after the cut {cut}")


def compress_payload(block: NewExchangeBlock) -> bytes:
    """The payload of a block in compressed form, as it is stored.

    The fastest level takes 1 ms for 100 kB, and suffices since exchanges resemble each other.
    """
    return zlib.compress(block.payload, 1)
