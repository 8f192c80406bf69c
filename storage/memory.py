"""A store in memory, for tests and for simulations."""

from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Self

from regroup.storage.errors import PositionTrimmed, SnapshotMissing
from regroup.storage.records import ExchangeBlock, Head, NewExchangeBlock, NewRecord, Record, Snapshot
from regroup.storage.store import (
    ANY_GROUP,
    AnyGroup,
    EventStore,
    GroupHeads,
    check_cut,
    compress_payload,
    sorted_by_group,
)

__all__ = ["MemoryStore"]


class _Blocks:
    """Blocks of exchanges or observations in memory. If they exceed a number of bytes, the oldest blocks are
    deleted."""

    def __init__(self) -> None:
        self._blocks: deque[tuple[ExchangeBlock, int]] = deque()
        """Each block, with the length of its compressed payload in bytes."""
        self._total_bytes = self._last_number = 0

    def append(self, block: NewExchangeBlock, max_bytes: int) -> None:
        size = len(compress_payload(block))
        self._last_number += 1
        self._total_bytes += size
        stored = ExchangeBlock(block.first_ms, block.last_ms, block.count, block.payload, self._last_number)
        self._blocks.append((stored, size))
        while self._total_bytes > max_bytes and len(self._blocks) > 1:
            self._total_bytes -= self._blocks.popleft()[1]

    def between(self, from_ms: int, to_ms: int | None) -> list[ExchangeBlock]:
        return [
            block
            for block, _ in self._blocks
            if block.last_ms >= from_ms and (to_ms is None or block.first_ms <= to_ms)
        ]


class MemoryStore(EventStore):
    """A store in memory.

    Its methods never suspend, so it works with any event loop's clock. It keeps its contents when it is closed.
    """

    has_checkpoints = False

    def __init__(self) -> None:
        self._trimmed_through = 0
        self._heads = GroupHeads({}, 0)
        self._records: list[Record] = []
        self._cuts: dict[int, dict[str | None, Snapshot]] = {}
        self._values: dict[str, bytes] = {}
        self._coordinator_epoch = 0
        self._exchanges, self._observations = _Blocks(), _Blocks()

    async def open(self) -> Self:
        """Return this store; for callers that need a function which opens a store."""
        return self

    @property
    def last_position(self) -> int:
        return self._heads.last_position

    @property
    def trimmed_through(self) -> int:
        return self._trimmed_through

    async def append(self, records: Sequence[NewRecord]) -> int:
        replaced = self._heads.check(records)
        self._records += [each.stored_at(position) for position, each in enumerate(records, self.last_position + 1)]
        return self._heads.advance(replaced, len(records))

    async def read(
        self,
        *,
        group: str | AnyGroup | None = ANY_GROUP,
        after: int = 0,
        until: int | None = None,
        types: Collection[str] | None = None,
        allow_gaps: bool = False,
    ) -> AsyncIterator[Record]:
        last = self.last_position if until is None else min(until, self.last_position)
        position = after
        while True:
            if position < self._trimmed_through:
                raise PositionTrimmed(position, self._trimmed_through)
            if position >= last:
                return
            record = self._records[position - self._trimmed_through]
            if (group is ANY_GROUP or record.group == group) and (types is None or record.type in types):
                yield record
            position += 1

    async def heads(self) -> dict[str | None, Head]:
        return sorted_by_group(self._heads.heads)

    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        check_cut(cut, snapshots, trimmed_through=self._trimmed_through, last_position=self.last_position)
        self._cuts.setdefault(cut, {}).update((snapshot.group, snapshot) for snapshot in snapshots)

    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        cuts = sorted(cut for cut in self._cuts if at is None or cut <= at)
        newest: dict[str | None, Snapshot] = {}
        for cut in cuts:
            newest |= self._cuts[cut]
        return max(cuts, default=0), sorted(
            newest.values(), key=lambda each: (each.group is not None, each.group or "")
        )

    async def cuts(self) -> list[int]:
        return sorted(self._cuts)

    async def trim(self, before: int) -> int:
        covered = max(self._cuts, default=0)
        if before - 1 > covered:
            raise SnapshotMissing(before, covered)
        count = max(0, before - 1 - self._trimmed_through)
        del self._records[:count]
        self._trimmed_through += count
        old = [cut for cut in self._cuts if cut < self._trimmed_through]
        if old:
            # The first cut that is left takes over the snapshots of those before.
            first = min(cut for cut in self._cuts if cut >= self._trimmed_through)
            _, snapshots = await self.load_snapshots(first)
            self._cuts[first] = {snapshot.group: snapshot for snapshot in snapshots}
            for cut in old:
                del self._cuts[cut]
        return count

    async def delete_trimmed(self) -> bool:
        return False

    async def put_value(self, name: str, value: bytes) -> None:
        self._values[name] = value

    async def get_value(self, name: str) -> bytes | None:
        return self._values.get(name)

    async def coordinator_epoch(self) -> int:
        return self._coordinator_epoch

    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        self._exchanges.append(block, max_bytes)

    async def read_exchanges(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        for block in self._exchanges.between(from_ms, to_ms):
            yield block

    async def append_observations(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        self._observations.append(block, max_bytes)

    async def read_observations(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        for block in self._observations.between(from_ms, to_ms):
            yield block

    async def next_coordinator_epoch(self) -> int:
        self._coordinator_epoch += 1
        return self._coordinator_epoch

    async def checkpoint(self) -> None:
        pass

    async def close(self) -> None:
        pass
