"""The one contract of every store of records."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import Final, Self

from regroup.storage.records import Head, NewRecord, Record, Snapshot


class Groups(Enum):
    """Which groups to read, where one group's name would not do (None names the cluster's own records)."""

    ANY = "any"


ANY: Final = Groups.ANY


class EventStore(ABC):
    """An append-only history of records, with snapshots and a few named values beside it.

    One process writes. Any method may raise a `StoreError`; afterwards the store holds what it held before.
    """

    @property
    @abstractmethod
    def last_position(self) -> int:
        """Of the last committed record, 0 when there never was one.

        A read-only store learns of another process's commits whenever it reads.
        """

    @property
    @abstractmethod
    def trimmed_through(self) -> int:
        """Records up to this position have been forgotten; 0 when none has."""

    @abstractmethod
    async def append(self, records: Sequence[NewRecord]) -> int:
        """Store all of them or none, at consecutive positions; returns the last position.

        Raises NumberIsTaken, ReignIsOver.
        """

    @abstractmethod
    def read(
        self,
        *,
        group: str | Groups | None = ANY,
        after: int = 0,
        until: int | None = None,
        types: Collection[str] | None = None,
    ) -> AsyncIterator[Record]:
        """Records with after < position <= until, in order of position, up to what is committed as reading begins.

        They come in chunks, and between chunks no transaction is open: a slow reader hinders nobody.
        Raises PositionTrimmed if `after` lies before what has been forgotten.
        """

    @abstractmethod
    async def heads(self) -> dict[str | None, Head]:
        """The end of every group's history, trimmed or not: the cluster's first, then by name."""

    @abstractmethod
    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        """Declare everything up to position `cut` covered by each group's newest snapshot.

        Groups without a record since the last cut need no new one. The same cut may be saved again.
        Raises ValueError if the cut lies outside the history or a snapshot lies after the cut.
        """

    @abstractmethod
    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        """The newest cut at or before `at` (0 if there is none), and each group's newest snapshot up to that cut."""

    @abstractmethod
    async def cuts(self) -> list[int]:
        """The positions that were declared covered and can still be read on from, in order."""

    @abstractmethod
    async def trim(self, before: int) -> int:
        """Forget the records before this position, and the cuts that can no longer be read on from.

        Returns how many records went. Raises SnapshotMissing if no cut covers them.
        """

    @abstractmethod
    async def keep(self, name: str, value: bytes) -> None:
        """Store a small value under a name, in place of the one before."""

    @abstractmethod
    async def kept(self, name: str) -> bytes | None:
        """The value that was kept under a name, if any."""

    @abstractmethod
    async def next_reign(self) -> int:
        """A larger number than ever before: 1, 2, 3 …, durable before it is returned."""

    @abstractmethod
    async def checkpoint(self) -> None:
        """Do now what would otherwise make a later commit wait. `CommitQueue` asks for it in an idle moment."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the file. Closing twice does no harm."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def by_group(heads: Mapping[str | None, Head]) -> dict[str | None, Head]:
    """The order in which groups are always listed: the cluster first, then by name."""
    return dict(sorted(heads.items(), key=lambda item: (item[0] is not None, item[0] or "")))


def check_cut(cut: int, snapshots: Sequence[Snapshot], *, trimmed_through: int, last_position: int) -> None:
    """Refuse a cut that would promise more than the store holds."""
    if not trimmed_through <= cut <= last_position:
        raise ValueError(f"The cut {cut} must lie between {trimmed_through} and {last_position}, within the history.")
    late = next((snapshot for snapshot in snapshots if snapshot.position > cut), None)
    if late is not None:
        raise ValueError(f"The snapshot of {late.group!r} is of position {late.position}, after the cut {cut}.")
