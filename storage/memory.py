"""The store that lives and dies with its process: for tests and for the laboratory."""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Self

from regroup.storage.errors import PositionTrimmed, SnapshotMissing
from regroup.storage.heads import Books
from regroup.storage.records import Head, NewRecord, Record, Snapshot
from regroup.storage.store import ANY, EventStore, Groups, by_group, check_cut


class MemoryStore(EventStore):
    """Never suspends, so it runs under any clock. Closing keeps everything: use it again as if reopened."""

    def __init__(self) -> None:
        self._trimmed_through = 0
        self._books = Books({}, 0)
        self._records: list[Record] = []
        self._cuts: dict[int, dict[str | None, Snapshot]] = {}
        self._kept: dict[str, bytes] = {}
        self._reign = 0

    async def open(self) -> Self:
        """The store itself: closing it has lost nothing. For whoever wants a way to open one."""
        return self

    @property
    def last_position(self) -> int:
        return self._books.last_position

    @property
    def trimmed_through(self) -> int:
        return self._trimmed_through

    async def append(self, records: Sequence[NewRecord]) -> int:
        moved = self._books.check(records)
        first = self.last_position + 1
        self._records += [stored(record, position) for position, record in enumerate(records, first)]
        return self._books.stored(moved, len(records))

    async def read(
        self,
        *,
        group: str | Groups | None = ANY,
        after: int = 0,
        until: int | None = None,
        types: Collection[str] | None = None,
    ) -> AsyncIterator[Record]:
        last = self.last_position if until is None else min(until, self.last_position)
        position = after
        while True:
            if position < self.trimmed_through:
                raise PositionTrimmed(position, self.trimmed_through)
            if position >= last:
                return
            record = self._records[position - self.trimmed_through]
            if (group is ANY or record.group == group) and (types is None or record.type in types):
                yield record
            position += 1

    async def heads(self) -> dict[str | None, Head]:
        return by_group(self._books.heads)

    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        check_cut(cut, snapshots, trimmed_through=self.trimmed_through, last_position=self.last_position)
        self._cuts.setdefault(cut, {}).update((snapshot.group, snapshot) for snapshot in snapshots)

    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        cuts = sorted(cut for cut in self._cuts if at is None or cut <= at)
        newest: dict[str | None, Snapshot] = {}
        for cut in cuts:
            newest |= self._cuts[cut]
        in_order = sorted(newest.values(), key=lambda snapshot: (snapshot.group is not None, snapshot.group or ""))
        return (cuts[-1] if cuts else 0), in_order

    async def cuts(self) -> list[int]:
        return sorted(self._cuts)

    async def trim(self, before: int) -> int:
        covered = max(self._cuts, default=0)
        if before - 1 > covered:
            raise SnapshotMissing(before, covered)
        count = max(0, before - 1 - self.trimmed_through)
        del self._records[:count]
        self._trimmed_through += count
        await self._forget_cuts()
        return count

    async def _forget_cuts(self) -> None:
        """Cuts before the trimmed records go; their snapshots count for the first cut that stays."""
        stale = [cut for cut in self._cuts if cut < self.trimmed_through]
        if stale:
            first = min(cut for cut in self._cuts if cut >= self.trimmed_through)
            _, snapshots = await self.load_snapshots(first)
            self._cuts[first] = {snapshot.group: snapshot for snapshot in snapshots}
            for cut in stale:
                del self._cuts[cut]

    async def keep(self, name: str, value: bytes) -> None:
        self._kept[name] = value

    async def kept(self, name: str) -> bytes | None:
        return self._kept.get(name)

    async def next_reign(self) -> int:
        self._reign += 1
        return self._reign

    async def checkpoint(self) -> None:
        pass

    async def close(self) -> None:
        pass


def stored(new: NewRecord, position: int) -> Record:
    return Record(new.group, new.number, new.reign, new.at_ms, new.type, new.version, new.payload, new.cause, position)
