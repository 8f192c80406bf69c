"""The store in a SQLite file, over any connection: in a thread of its own, or inline."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self

from regroup.storage.errors import PositionTrimmed, SnapshotMissing, StoreFailed, StoreIsDamaged, StoreIsReadOnly
from regroup.storage.heads import Books
from regroup.storage.records import Head, NewRecord, Record, Snapshot
from regroup.storage.sqlite import statements as sql
from regroup.storage.sqlite.files import WriterLock, explained
from regroup.storage.store import ANY, EventStore, Groups, by_group, check_cut

NEWEST = 2**63 - 1


class Connection(Protocol):
    """What the store needs of SQLite, in autocommit."""

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]: ...
    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...
    async def close(self) -> None: ...


class SqlStore(EventStore):
    """Opened by `open_store` or `open_inline_store`."""

    def __init__(self, path: Path, connection: Connection, lock: WriterLock | None) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._last_position = self._trimmed_through = 0
        self._books: Books | None = None
        self._closed = False
        # All share one connection, and nobody may read in the middle of another's transaction.
        self._turn = asyncio.Lock()

    @property
    def last_position(self) -> int:
        return self._last_position

    @property
    def trimmed_through(self) -> int:
        return self._trimmed_through

    @property
    def read_only(self) -> bool:
        return self._lock is None

    async def begin(self, pragmas: Sequence[str] = ()) -> Self:
        """Set the connection up and read where the history ends; close again if that fails."""
        try:
            async with self._alone():
                for pragma in pragmas:
                    await self._connection.execute(pragma)
                await self._look()
                if not self.read_only:
                    await self._open_books()
        except BaseException:
            await self.close()
            raise
        return self

    async def append(self, records: Sequence[NewRecord]) -> int:
        if not records:
            return self._last_position
        async with self._writing():
            books = await self._open_books()
            moved = books.check(records)
            rows = sql.rows_of(records, books.last_position + 1)
            await self._insert(rows)
            self._last_position = books.stored(moved, len(rows))
            return self._last_position

    async def read(
        self,
        *,
        group: str | Groups | None = ANY,
        after: int = 0,
        until: int | None = None,
        types: Collection[str] | None = None,
    ) -> AsyncIterator[Record]:
        async with self._alone():
            if self.read_only:
                await self._look()
        last = self._last_position if until is None else min(until, self._last_position)
        if group is ANY:
            chunks = self._chunks_by_position(after, last, types)
        else:
            assert not isinstance(group, Groups)
            chunks = self._chunks_of_group(group, after, last, types)
        async for rows in chunks:
            for row in rows:
                yield Record(*row)

    async def heads(self) -> dict[str | None, Head]:
        async with self._alone():
            return by_group((await self._open_books()).heads if not self.read_only else await self._read_heads())

    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        check_cut(cut, snapshots, trimmed_through=self._trimmed_through, last_position=self._last_position)
        rows = [(s.group, cut, s.number, s.position, s.reign, s.version, s.payload) for s in snapshots]
        async with self._writing(), self._transaction():
            await self._connection.execute("INSERT OR IGNORE INTO cuts VALUES (?)", (cut,))
            await self._connection.execute_many(sql.SAVE_SNAPSHOT, rows)

    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        async with self._alone():
            ((cut,),) = await self._connection.execute(sql.NEWEST_CUT, (NEWEST if at is None else at,))
            if cut is None:
                return 0, []
            rows = await self._connection.execute(sql.NEWEST_SNAPSHOTS, (cut,))
            return cut, [Snapshot(*row) for row in rows]

    async def cuts(self) -> list[int]:
        async with self._alone():
            return [position for (position,) in await self._connection.execute(sql.CUTS)]

    async def trim(self, before: int) -> int:
        async with self._writing(), self._transaction():
            through = before - 1
            ((covered,),) = await self._connection.execute(sql.NEWEST_CUT, (NEWEST,))
            if through > (covered or 0):
                raise SnapshotMissing(before, covered or 0)
            count = max(0, through - self._trimmed_through)
            if count:
                await self._forget(through)
        self._trimmed_through += count
        return count

    async def _insert(self, rows: Sequence[sql.Row]) -> None:
        if len(rows) <= sql.ROWS_IN_ONE_STATEMENT:
            # One statement is a transaction by itself: the other thread is visited once instead of three times.
            async with self._undone_if_it_fails():
                await self._connection.execute(sql.INSERT_RECORDS[len(rows) - 1], list(chain.from_iterable(rows)))
        else:
            async with self._transaction():
                await self._connection.execute_many(sql.INSERT_RECORD, rows)

    async def _forget(self, through: int) -> None:
        await self._connection.execute(sql.REMEMBER_HEADS, (through,))
        await self._connection.execute("DELETE FROM events WHERE position <= ?", (through,))
        await self._connection.execute(sql.SET_COUNTER, (through, "trimmed_through"))
        await self._connection.execute("DELETE FROM cuts WHERE position < ?", (through,))
        await self._connection.execute(sql.FORGET_SNAPSHOTS)

    async def keep(self, name: str, value: bytes) -> None:
        async with self._writing(), self._transaction():
            await self._connection.execute(sql.KEEP, (name, value))

    async def kept(self, name: str) -> bytes | None:
        async with self._alone():
            rows = await self._connection.execute(sql.KEPT, (name,))
            return bytes(rows[0][0]) if rows else None

    async def next_reign(self) -> int:
        async with self._writing(), self._transaction():
            await self._connection.execute(sql.COUNT_UP, ("reign",))
            (reign,) = await self._only_row(sql.COUNTER, ("reign",))
            return int(reign)

    async def checkpoint(self) -> None:
        async with self._writing():
            await self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    async def close(self) -> None:
        async with self._turn:
            self._closed = True
            try:
                with explained(self.path):
                    await self._connection.close()
            finally:
                if self._lock is not None:
                    self._lock.release()

    async def _chunks_by_position(
        self, after: int, last: int, types: Collection[str] | None
    ) -> AsyncIterator[list[Any]]:
        for start in range(after, last, sql.CHUNK):
            yield await self._chunk(start, sql.select_by_position(start, min(start + sql.CHUNK, last), types))

    async def _chunks_of_group(
        self, group: str | None, after: int, last: int, types: Collection[str] | None
    ) -> AsyncIterator[list[Any]]:
        number = 0
        while after < last:
            rows = await self._chunk(after, sql.select_of_group(group, number, after, last, types))
            yield rows
            if len(rows) < sql.CHUNK:
                return
            number, after = rows[-1][1], rows[-1][-1]

    async def _chunk(self, after: int, query: tuple[str, sql.Row]) -> list[Any]:
        """The rows of one query; what was trimmed is looked up behind it, so that nothing is missed unnoticed."""
        async with self._alone():
            rows = await self._connection.execute(*query)
            if self.read_only:
                await self._look()
        if after < self._trimmed_through:
            raise PositionTrimmed(after, self._trimmed_through)
        return rows

    async def _look(self) -> None:
        self._last_position, self._trimmed_through = await self._only_row(sql.POSITIONS)

    async def _only_row(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        """One row, which every whole store has."""
        rows = await self._connection.execute(statement, parameters)
        if len(rows) != 1:
            raise StoreIsDamaged(f"{self.path} is damaged: a counter is missing. Restore it from a copy.")
        return rows[0]

    async def _open_books(self) -> Books:
        if self._books is None:
            await self._look()
            self._books = Books(await self._read_heads(), self._last_position)
        return self._books

    async def _read_heads(self) -> dict[str | None, Head]:
        # A trimmed head comes first, and a later one of the same group takes its place.
        heads = {group: Head(*head) for group, *head in await self._connection.execute(sql.HEADS)}
        if not all(group is None or isinstance(group, str) for group in heads):
            raise StoreIsDamaged(f"{self.path} is damaged: a group's name is no text. Restore it from a copy.")
        if not all(isinstance(number, int) for each in heads.values() for number in (each.number, each.reign)):
            raise StoreIsDamaged(f"{self.path} is damaged: a record's number is none. Restore it from a copy.")
        return heads

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._turn:
            if self._closed:
                raise StoreFailed(f"{self.path} has been closed: open it again.")
            with explained(self.path):
                yield

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        if self.read_only:
            raise StoreIsReadOnly(f"{self.path} was opened for reading only: open it for writing.")
        async with self._alone():
            yield

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        async with self._undone_if_it_fails():
            await self._connection.execute("BEGIN IMMEDIATE")
            yield
            await self._connection.execute("COMMIT")

    @asynccontextmanager
    async def _undone_if_it_fails(self) -> AsyncIterator[None]:
        """Roll back after a failure, and learn anew where the history ends: a cancelled commit may have succeeded."""
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the first failure is the one to tell
                await self._connection.execute("ROLLBACK")
            self._books = None
            with suppress(Exception):
                await self._look()
            raise
