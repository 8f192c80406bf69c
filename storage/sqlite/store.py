"""The store in a SQLite file, over any kind of connection: with a thread for it, or in the caller's thread."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Self

from regroup.storage.errors import (
    PositionTrimmed,
    SnapshotMissing,
    StoreDamaged,
    StoreFailed,
    StoreReadOnly,
)
from regroup.storage.records import ExchangeBlock, Head, NewExchangeBlock, NewRecord, Record, Snapshot
from regroup.storage.sqlite import statements as sql
from regroup.storage.sqlite.block_table import BlockTable
from regroup.storage.sqlite.connection import SqliteConnection
from regroup.storage.sqlite.files import translate_sqlite_errors
from regroup.storage.sqlite.group_index import GroupIndex
from regroup.storage.sqlite.loss.writer_mark import WriterMark
from regroup.storage.sqlite.rows import Number, Positions, Row, Value, read_rows
from regroup.storage.sqlite.trimming import HistoryTrimmer
from regroup.storage.sqlite.writer_lock import WriterLock
from regroup.storage.store import (
    ANY_GROUP,
    AnyGroup,
    EventStore,
    GroupHeads,
    check_cut,
    compress_payload,
    sorted_by_group,
)

_MAX_POSITION = 2**63 - 1


class SqliteStore(EventStore):
    """A store in a SQLite file, opened by `open_store` or `open_inline_store`."""

    def __init__(self, path: Path, connection: SqliteConnection, writer_lock: WriterLock | None) -> None:
        self.path = path
        self._connection = connection
        self._writer_lock = writer_lock
        self._last_position = self._trimmed_through = 0
        self._heads: GroupHeads | None = None
        self._mark = WriterMark(path, connection, writer_lock)
        self._index = GroupIndex(path, connection)
        self._exchanges = BlockTable(path, connection, "exchanges", "recorded exchanges")
        self._observations = BlockTable(path, connection, "observations", "observations")
        self._trimmer = HistoryTrimmer(path, connection)
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
        """Execute the pragmas, and read the last position of the store and the last record of each group; returns the
        store. If that fails, the store is closed."""
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
        # Not `with self._writing()`: a context manager would cost each commit as much as the check of the files.
        async with self._mutex:
            self._raise_unless_writable()
            try:
                files = self._mark.files or await self._mark.put()
                heads = await self._loaded_heads()
                replaced = heads.check(records)
                rows = sql.rows_from_records(records, heads.last_position + 1)
                if len(rows) <= sql.MAX_ROWS_PER_STATEMENT:
                    # One statement is a transaction by itself: one call into the other thread instead of three.
                    await self._connection.commit(sql.INSERT_RECORDS[len(rows) - 1], list(chain.from_iterable(rows)))
                else:
                    await self._connection.execute("BEGIN IMMEDIATE")
                    await self._connection.execute_many(sql.INSERT_RECORD, rows)
                    await self._connection.execute("COMMIT")
                files.check()
            except BaseException:
                with translate_sqlite_errors(self.path):
                    await self._roll_back()
                    raise
            self._last_position = heads.advance(replaced, len(rows))
            return self._last_position

    async def read(
        self,
        *,
        group: str | AnyGroup | None = ANY_GROUP,
        after: int = 0,
        until: int | None = None,
        types: Collection[str] | None = None,
        allow_gaps: bool = False,
    ) -> AsyncIterator[Record]:
        async with self._exclusive():
            if self.read_only:
                await self._read_positions()
        last = self._last_position if until is None else min(until, self._last_position)
        if isinstance(group, AnyGroup):
            chunks = self._chunks_by_position(after, last, allow_gaps=allow_gaps)
        else:
            chunks = self._chunks_by_group(group, after, last, allow_gaps=allow_gaps)
        async for records in chunks:
            for record in records:
                if types is None or record.type in types:
                    yield record

    async def heads(self) -> dict[str | None, Head]:
        async with self._exclusive():
            return sorted_by_group(await self._read_heads() if self.read_only else (await self._loaded_heads()).heads)

    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        check_cut(cut, snapshots, trimmed_through=self._trimmed_through, last_position=self._last_position)
        rows = [
            (s.group, cut, s.event_number, s.position, s.coordinator_epoch, s.version, s.payload) for s in snapshots
        ]
        async with self._transaction():
            await self._connection.execute("INSERT OR IGNORE INTO cuts VALUES (?)", (cut,))
            await self._connection.execute_many(sql.SAVE_SNAPSHOT, rows)

    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        async with self._exclusive():
            cut = await self._newest_cut(_MAX_POSITION if at is None else at)
            return cut, await self._rows(Snapshot, *sql.select_newest_snapshots(cut))

    async def cuts(self) -> list[int]:
        async with self._exclusive():
            return [cut.value for cut in await self._rows(Number, sql.CUTS)]

    async def trim(self, before: int) -> int:
        async with self._transaction():
            through = before - 1
            covered = await self._newest_cut(_MAX_POSITION)
            if through > covered:
                raise SnapshotMissing(before, covered)
            count = max(0, through - self._trimmed_through)
            if count:
                heads = (await self._loaded_heads()).heads
                await self._trimmer.begin_after(through, heads, trimmed_through=self._trimmed_through)
        self._trimmed_through += count
        return count

    async def delete_trimmed(self) -> bool:
        async with self._writing():
            return await self._trimmer.delete_portion(self._trimmed_through)

    async def put_value(self, name: str, value: bytes) -> None:
        async with self._transaction():
            await self._connection.execute(sql.PUT_VALUE, (name, value))

    async def get_value(self, name: str) -> bytes | None:
        async with self._exclusive():
            rows = await self._rows(Value, sql.GET_VALUE, (name,))
            return rows[0].value if rows else None

    async def coordinator_epoch(self) -> int:
        async with self._exclusive():
            return (await self._only_row(Number, sql.COUNTER, ("coordinator_epoch",))).value

    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        await self._append_block(self._exchanges, block, max_bytes)

    def read_exchanges(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        return self._read_blocks(self._exchanges, from_ms, to_ms)

    async def append_observations(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        await self._append_block(self._observations, block, max_bytes)

    def read_observations(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        return self._read_blocks(self._observations, from_ms, to_ms)

    async def next_coordinator_epoch(self) -> int:
        async with self._transaction():
            await self._connection.execute(sql.INCREMENT_COUNTER, ("coordinator_epoch",))
            return (await self._only_row(Number, sql.COUNTER, ("coordinator_epoch",))).value

    async def checkpoint(self) -> None:
        async with self._writing():
            await self._index.extend(self._last_position)
            await self._connection.checkpoint()

    async def close(self) -> None:
        async with self._mutex:
            try:
                if not self._is_closed:
                    await self._mark.remove(self._index, self._last_position)
            finally:
                self._is_closed = True
                try:
                    with translate_sqlite_errors(self.path):
                        await self._connection.close()
                finally:
                    if self._writer_lock is not None:
                        self._writer_lock.release()

    async def _append_block(self, table: BlockTable, block: NewExchangeBlock, max_bytes: int) -> None:
        compressed = await self._connection.compute(compress_payload, block)
        async with self._writing():
            await table.append(block, compressed, max_bytes)

    async def _read_blocks(self, table: BlockTable, from_ms: int, to_ms: int | None) -> AsyncIterator[ExchangeBlock]:
        number = 0
        while True:
            async with self._exclusive():
                block = await table.next_block(number, from_ms, to_ms)
            if block is None:
                return
            number = block.number
            yield block

    async def _chunks_by_position(self, after: int, last: int, *, allow_gaps: bool) -> AsyncIterator[list[Record]]:
        expected = max(after, 0) + 1
        while after < last:
            records = await self._read_chunk(after, sql.select_by_position(after, last))
            for record in records:
                if record.position != expected and not allow_gaps:
                    raise self._missing(f"the record at position {expected}")
                expected = record.position + 1
            yield records
            if len(records) < sql.CHUNK_SIZE:
                return
            after = records[-1].position

    async def _chunks_by_group(
        self, group: str | None, after: int, last: int, *, allow_gaps: bool
    ) -> AsyncIterator[list[Record]]:
        async with self._exclusive():
            if self.read_only:
                self._index.forget()
            reach = await self._index.reach()
        event_number = 0
        while after < last:
            end = min(last, reach) if after < reach else last
            records = await self._read_chunk(after, self._index.query(group, event_number, after, end, reach))
            for record in records:
                if event_number and record.event_number != event_number + 1 and not allow_gaps:
                    whose = "the cluster" if group is None else f"group {group!r}"
                    raise self._missing(f"event {event_number + 1} of {whose}")
                event_number = record.event_number
            yield records
            after = end if len(records) < sql.CHUNK_SIZE else records[-1].position

    def _missing(self, what: str) -> StoreDamaged:
        return StoreDamaged(f"{self.path} is damaged: {what} is missing. Restore it from a copy.")

    async def _read_chunk(self, after: int, query: tuple[str, sql.SqlRow]) -> list[Record]:
        """Run one query for records. Raises PositionTrimmed if some of the records were trimmed before it ran."""
        async with self._exclusive():
            records = await self._rows(Record, *query)
            if self.read_only:
                await self._read_positions()
        if after < self._trimmed_through:
            raise PositionTrimmed(after, self._trimmed_through)
        return records

    async def _rows(self, row_type: type[Row], statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a query and return its rows. Raises StoreDamaged if a column has another type."""
        return read_rows(self.path, await self._connection.execute(statement, parameters), row_type)

    async def _newest_cut(self, at: int) -> int:
        """The position of the newest cut at or before the position `at`; 0 if there is none."""
        cuts = await self._rows(Number, sql.NEWEST_CUT, (at,))
        return cuts[0].value if cuts else 0

    async def _read_positions(self) -> None:
        positions = await self._only_row(Positions, sql.POSITIONS)
        self._last_position, self._trimmed_through = positions.last_position, positions.trimmed_through

    async def _only_row(self, row_type: type[Row], statement: str, parameters: Sequence[object] = ()) -> Row:
        """Run a query that has exactly one row in every undamaged store, and return that row."""
        rows = await self._rows(row_type, statement, parameters)
        if len(rows) != 1:
            raise StoreDamaged(f"{self.path} is damaged: a counter is missing. Restore it from a copy.")
        return rows[0]

    async def _loaded_heads(self) -> GroupHeads:
        if self._heads is None:
            await self._read_positions()
            self._heads = GroupHeads(await self._read_heads(), self._last_position)
        return self._heads

    async def _read_heads(self) -> dict[str | None, Head]:
        if self.read_only:
            self._index.forget()
        # The head of a trimmed group comes first, and is replaced by that of its later records.
        return {
            head.group: Head(head.event_number, head.coordinator_epoch, head.position)
            for head in await self._index.heads()
        }

    @asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[None]:
        async with self._mutex:
            self._raise_if_closed()
            with translate_sqlite_errors(self.path):
                yield

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        """A context manager in which the block may write to the store.

        After an error in the block the transaction is rolled back. Raises StoreLost at the end if the files are not
        those that were opened.
        """
        async with self._mutex:
            self._raise_unless_writable()
            with translate_sqlite_errors(self.path):
                try:
                    files = self._mark.files or await self._mark.put()
                    yield
                    files.check()
                except BaseException:
                    await self._roll_back()
                    raise

    async def _roll_back(self) -> None:
        """Roll back a transaction that has failed.

        The last positions are read again from the file, since a cancelled transaction may have succeeded. No error is
        raised here, because the caller raises the error of the transaction.
        """
        with suppress(Exception):
            await self._connection.execute("ROLLBACK")
        self._heads = None
        self._index.forget()
        with suppress(Exception):
            await self._read_positions()
        if self._mark.files is not None:
            self._mark.files.accept()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        async with self._writing():
            await self._connection.execute("BEGIN IMMEDIATE")
            yield
            await self._connection.execute("COMMIT")

    def _raise_unless_writable(self) -> None:
        if self.read_only:
            raise StoreReadOnly(f"{self.path} was opened for reading only: open it for writing.")
        self._raise_if_closed()

    def _raise_if_closed(self) -> None:
        if self._is_closed:
            raise StoreFailed(f"{self.path} has been closed: open it again.")
