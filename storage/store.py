"""The contract of every store of records, and what its implementations share.

A group's records are numbered without a gap, and all records have consecutive positions in the order of commits.
"""

import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import Final, Self

from regroup.storage.errors import CoordinatorFenced, EventNumberConflict
from regroup.storage.records import ExchangeBlock, Head, NewExchangeBlock, NewRecord, Record, Snapshot

__all__ = ["AnyGroup", "ANY_GROUP", "EventStore", "follow"]


class AnyGroup(Enum):
    """The type of `ANY_GROUP`. Any string may be a group's id, and None selects the records of the cluster."""

    ANY = "any"


ANY_GROUP: Final = AnyGroup.ANY
"""Selects the records of every group and of the cluster."""


class EventStore(ABC):
    """An append-only history of records, with snapshots and a few named values beside it.

    Only one process may write. Any method may raise a `StoreError`; the store then holds what it held before.
    """

    @property
    @abstractmethod
    def last_position(self) -> int:
        """Position of the last committed record; 0 if nothing was ever appended.

        A read-only store learns of other processes' commits when it reads.
        """

    @property
    @abstractmethod
    def trimmed_through(self) -> int:
        """Position of the last record that has been trimmed; 0 if none has."""

    @abstractmethod
    async def append(self, records: Sequence[NewRecord]) -> int:
        """Store all records or none, at consecutive positions; returns the last position.

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
        """The end of every group's history, trimmed or not: the cluster first, then groups by id."""

    @abstractmethod
    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        """Declare that each group's newest snapshot covers its records up to position `cut`.

        Groups without a record since the last cut need no new one. The same cut may be saved again.
        Raises ValueError if the cut lies outside the history or a snapshot lies after the cut.
        """

    @abstractmethod
    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        """The newest cut at or before `at` (0 if there is none), and each group's newest snapshot up to that cut."""

    @abstractmethod
    async def cuts(self) -> list[int]:
        """All cuts, in order. The records after each of them are still there."""

    @abstractmethod
    async def trim(self, before: int) -> int:
        """Delete the records before this position, and the cuts whose following records are gone.

        Returns how many records were deleted. Raises SnapshotMissing if no cut covers them.
        """

    @abstractmethod
    async def put_value(self, name: str, value: bytes) -> None:
        """Store a small value under a name; it replaces the value that was there."""

    @abstractmethod
    async def get_value(self, name: str) -> bytes | None:
        """The value stored under a name, or None."""

    @abstractmethod
    async def coordinator_epoch(self) -> int:
        """The coordinator epoch that was given out last; 0 before the first."""

    @abstractmethod
    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        """Store recorded exchanges, and delete the oldest blocks while all of them together exceed `max_bytes`.

        The newest block stays in any case. It survives a crash of the process; a power failure may lose it.
        """

    @abstractmethod
    def read_exchanges(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        """Yield the blocks with exchanges between these times, both included, by number. Raises StoreDamaged."""

    @abstractmethod
    async def append_observations(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        """Store what a simulation has observed beside its events and exchanges, bounded as `append_exchanges` is."""

    @abstractmethod
    def read_observations(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        """Yield the blocks with observations between these times, as `read_exchanges` does. Raises StoreDamaged."""

    @abstractmethod
    async def next_coordinator_epoch(self) -> int:
        """The next coordinator epoch: 1, 2, 3 …, durable before it is returned."""

    has_checkpoints: bool = True
    """Whether `checkpoint` does anything; if not, `Journal` never calls it, and starts no timer for it."""

    @abstractmethod
    async def checkpoint(self) -> None:
        """Do work now that would delay a later commit. `Journal` calls it when no record is pending."""

    @abstractmethod
    async def close(self) -> None:
        """Release the file. A second call has no effect."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def append_history(store: EventStore, records: Sequence[Record]) -> None:
    """Append the records of another store, and give out the coordinator epochs that they have.

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


_NO_HEAD: Final = Head(event_number=0, coordinator_epoch=0, position=0)


class GroupHeads:
    """The end of every group's history, in memory, so that an append is checked without reading the file."""

    def __init__(self, heads: Mapping[str | None, Head], last_position: int) -> None:
        self.heads = dict(heads)
        self.last_position = last_position

    def check(self, records: Iterable[NewRecord]) -> dict[str | None, Head]:
        """The heads that these records replace once stored. Raises EventNumberConflict, CoordinatorFenced."""
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
        """Take over the heads of a checked batch of `count` records that is stored now; returns the last position."""
        self.heads.update(replaced)
        self.last_position += count
        return self.last_position


def sorted_by_group(heads: Mapping[str | None, Head]) -> dict[str | None, Head]:
    """The heads in the order in which groups are always listed: the cluster first, then groups by id."""
    return dict(sorted(heads.items(), key=lambda item: (item[0] is not None, item[0] or "")))


def check_cut(cut: int, snapshots: Sequence[Snapshot], *, trimmed_through: int, last_position: int) -> None:
    """Raise ValueError for a cut outside the history, or for a snapshot after the cut."""
    if not trimmed_through <= cut <= last_position:
        raise ValueError(f"invalid cut: {cut}; it must lie between {trimmed_through} and {last_position}")
    late = next((snapshot for snapshot in snapshots if snapshot.position > cut), None)
    if late is not None:
        raise ValueError(f"the snapshot of {late.group!r} is at position {late.position}, after the cut {cut}")


def compress_payload(block: NewExchangeBlock) -> bytes:
    """The payload as it is kept. The fastest level takes 1 ms for 100 kB, and exchanges resemble each other."""
    return zlib.compress(block.payload, 1)
