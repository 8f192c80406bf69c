"""The store in a SQLite file, over any kind of connection: in a thread of its own, or inline."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self

from regroup.storage.errors import PositionTrimmed, SnapshotMissing, StoreDamaged, StoreFailed, StoreReadOnly
from regroup.storage.records import Head, NewRecord, Record, Snapshot
from regroup.storage.sqlite import statements as sql
from regroup.storage.sqlite.files import WriterLock, translate_sqlite_errors
from regroup.storage.store import ANY_GROUP, AnyGroup, EventStore, GroupHeads, check_cut, sorted_by_group

_MAX_POSITION = 2**63 - 1


class SqliteConnection(Protocol):
    """The methods that a store needs of a connection to SQLite, which is in autocommit mode."""

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]: ...
    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...
    async def close(self) -> None: ...


class SqliteStore(EventStore):
    """A store in a SQLite file, opened by `open_store` or `open_inline_store`."""

    def __init__(self, path: Path, connection: SqliteConnection, writer_lock: WriterLock | None) -> None:
        self.path = path
        self._connection = connection
        self._writer_lock = writer_lock
        self._last_position = self._trimmed_through = 0
        self._heads: GroupHeads | None = None
        self._is_closed = False
        # All callers share one connection, and none may read in the middle of another's transaction.
        self._mutex = asyncio.Lock()

    @property
    def last_position(self) -> int:
        return self._last_position

    @property
    def trimmed_through(self) -> int:
        return self._trimmed_through

    @property
    def read_only(self) -> bool:
        return self._writer_lock is None

    async def begin(self, pragmas: Sequence[str] = ()) -> Self:
        """Set up the connection and read the end of the history; closes the store if that fails."""
        try:
            async with self._exclusive():
                for pragma in pragmas:
                    await self._connection.execute(pragma)
                await self._read_positions()
                if not self.read_only:
                    await self._loaded_heads()
        except BaseException:
            await self.close()
            raise
        return self

    async def append(self, records: Sequence[NewRecord]) -> int:
        if not records:
            return self._last_position
        async with self._exclusive_for_writing():
            heads = await self._loaded_heads()
            replaced = heads.check(records)
            rows = sql.rows_from_records(records, heads.last_position + 1)
            if len(rows) <= sql.MAX_ROWS_PER_STATEMENT:
                # One statement is a transaction by itself: one call into the other thread instead of three.
                async with self._rollback_on_error():
                    await self._connection.execute(sql.INSERT_RECORDS[len(rows) - 1], list(chain.from_iterable(rows)))
            else:
                async with self._transaction():
                    await self._connection.execute_many(sql.INSERT_RECORD, rows)
            self._last_position = heads.advance(replaced, len(rows))
            return self._last_position

    async def read(
        self,
        *,
        group: str | AnyGroup | None = ANY_GROUP,
        after: int = 0,
        until: int | None = None,
        types: Collection[str] | None = None,
    ) -> AsyncIterator[Record]:
        async with self._exclusive():
            if self.read_only:
                await self._read_positions()
        last = self._last_position if until is None else min(until, self._last_position)
        if isinstance(group, AnyGroup):
            chunks = self._chunks_by_position(after, last, types)
        else:
            chunks = self._chunks_by_group(group, after, last, types)
        async for rows in chunks:
            for row in rows:
                yield Record(*row)

    async def heads(self) -> dict[str | None, Head]:
        async with self._exclusive():
            return sorted_by_group(await self._read_heads() if self.read_only else (await self._loaded_heads()).heads)

    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        check_cut(cut, snapshots, trimmed_through=self._trimmed_through, last_position=self._last_position)
        rows = [
            (s.group, cut, s.event_number, s.position, s.coordinator_epoch, s.version, s.payload) for s in snapshots
        ]
        async with self._exclusive_for_writing(), self._transaction():
            await self._connection.execute("INSERT OR IGNORE INTO cuts VALUES (?)", (cut,))
            await self._connection.execute_many(sql.SAVE_SNAPSHOT, rows)

    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        async with self._exclusive():
            ((cut,),) = await self._connection.execute(sql.NEWEST_CUT, (_MAX_POSITION if at is None else at,))
            if cut is None:
                return 0, []
            rows = await self._connection.execute(sql.NEWEST_SNAPSHOTS, (cut,))
            return cut, [Snapshot(*row) for row in rows]

    async def cuts(self) -> list[int]:
        async with self._exclusive():
            return [position for (position,) in await self._connection.execute(sql.CUTS)]

    async def trim(self, before: int) -> int:
        async with self._exclusive_for_writing(), self._transaction():
            through = before - 1
            ((covered,),) = await self._connection.execute(sql.NEWEST_CUT, (_MAX_POSITION,))
            if through > (covered or 0):
                raise SnapshotMissing(before, covered or 0)
            count = max(0, through - self._trimmed_through)
            if count:
                await self._connection.execute(sql.SAVE_TRIMMED_HEADS, (through,))
                await self._connection.execute("DELETE FROM events WHERE position <= ?", (through,))
                await self._connection.execute(sql.SET_COUNTER, (through, "trimmed_through"))
                await self._connection.execute("DELETE FROM cuts WHERE position < ?", (through,))
                await self._connection.execute(sql.DELETE_OLD_SNAPSHOTS)
        self._trimmed_through += count
        return count

    async def put_value(self, name: str, value: bytes) -> None:
        async with self._exclusive_for_writing(), self._transaction():
            await self._connection.execute(sql.PUT_VALUE, (name, value))

    async def get_value(self, name: str) -> bytes | None:
        async with self._exclusive():
            rows = await self._connection.execute(sql.GET_VALUE, (name,))
            return bytes(rows[0][0]) if rows else None

    async def next_coordinator_epoch(self) -> int:
        async with self._exclusive_for_writing(), self._transaction():
            await self._connection.execute(sql.INCREMENT_COUNTER, ("coordinator_epoch",))
            (epoch,) = await self._only_row(sql.COUNTER, ("coordinator_epoch",))
            return int(epoch)

    async def checkpoint(self) -> None:
        async with self._exclusive_for_writing():
            await self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    async def close(self) -> None:
        async with self._mutex:
            self._is_closed = True
            try:
                with translate_sqlite_errors(self.path):
                    await self._connection.close()
            finally:
                if self._writer_lock is not None:
                    self._writer_lock.release()

    async def _chunks_by_position(
        self, after: int, last: int, types: Collection[str] | None
    ) -> AsyncIterator[list[Any]]:
        for start in range(after, last, sql.CHUNK_SIZE):
            query = sql.select_by_position(start, min(start + sql.CHUNK_SIZE, last), types)
            yield await self._read_chunk(start, query)

    async def _chunks_by_group(
        self, group: str | None, after: int, last: int, types: Collection[str] | None
    ) -> AsyncIterator[list[Any]]:
        event_number = 0
        while after < last:
            rows = await self._read_chunk(after, sql.select_by_group(group, event_number, after, last, types))
            yield rows
            if len(rows) < sql.CHUNK_SIZE:
                return
            event_number, after = rows[-1][1], rows[-1][-1]

    async def _read_chunk(self, after: int, query: tuple[str, sql.SqlRow]) -> list[Any]:
        """The rows of one query. Raises PositionTrimmed if some of them were trimmed before it ran."""
        async with self._exclusive():
            rows = await self._connection.execute(*query)
            if self.read_only:
                await self._read_positions()
        if after < self._trimmed_through:
            raise PositionTrimmed(after, self._trimmed_through)
        return rows

    async def _read_positions(self) -> None:
        self._last_position, self._trimmed_through = await self._only_row(sql.POSITIONS)

    async def _only_row(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        """The single row that this query has in every undamaged store."""
        rows = await self._connection.execute(statement, parameters)
        if len(rows) != 1:
            raise StoreDamaged(f"{self.path} is damaged: a counter is missing. Restore it from a copy.")
        return rows[0]

    async def _loaded_heads(self) -> GroupHeads:
        if self._heads is None:
            await self._read_positions()
            self._heads = GroupHeads(await self._read_heads(), self._last_position)
        return self._heads

    async def _read_heads(self) -> dict[str | None, Head]:
        # The head of a trimmed group comes first, and is replaced by that of its later records.
        heads = {group: Head(*head) for group, *head in await self._connection.execute(sql.HEADS)}
        if not all(group is None or isinstance(group, str) for group in heads):
            raise StoreDamaged(f"{self.path} is damaged: a group's id is not text. Restore it from a copy.")
        numbers = [number for head in heads.values() for number in (head.event_number, head.coordinator_epoch)]
        if not all(isinstance(number, int) for number in numbers):
            raise StoreDamaged(f"{self.path} is damaged: an event number is not an integer. Restore it from a copy.")
        return heads

    @asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[None]:
        async with self._mutex:
            if self._is_closed:
                raise StoreFailed(f"{self.path} has been closed: open it again.")
            with translate_sqlite_errors(self.path):
                yield

    @asynccontextmanager
    async def _exclusive_for_writing(self) -> AsyncIterator[None]:
        if self.read_only:
            raise StoreReadOnly(f"{self.path} was opened for reading only: open it for writing.")
        async with self._exclusive():
            yield

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        async with self._rollback_on_error():
            await self._connection.execute("BEGIN IMMEDIATE")
            yield
            await self._connection.execute("COMMIT")

    @asynccontextmanager
    async def _rollback_on_error(self) -> AsyncIterator[None]:
        """Roll back after an error, and read the end of the history again: a cancelled commit may have succeeded."""
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the error that is raised is the first one
                await self._connection.execute("ROLLBACK")
            self._heads = None
            with suppress(Exception):
                await self._read_positions()
            raise
