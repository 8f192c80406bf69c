"""Trims the history of a SQLite store: first it begins later, at once; then the rows before are deleted in portions.

No reader sees these rows any more, so a process may end between two portions: the next trim deletes what is left.
SQLite keeps the pages that become free, and writes later records into them. So the file does not shrink, and it stops
growing.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from regroup.storage.records import Head
from regroup.storage.sqlite import statements as sql
from regroup.storage.sqlite.connection import SqliteConnection
from regroup.storage.sqlite.rows import Number, OldSnapshot, Portion, Row, read_rows

MAX_PORTION_RECORDS: Final = 500
"""The most records in one portion, for which a commit beside it waits: some 2 ms on an idle machine."""
MAX_PORTION_SNAPSHOTS: Final = 200
"""The most snapshots in one portion, and the most groups whose snapshots it looks at."""
MAX_PORTION_BYTES: Final = 1024 * 1024
"""After so many bytes of payloads a portion ends, whatever their number: one commit may have 10,000 partitions."""


class HistoryTrimmer:
    """Trims one store. The caller holds the store's lock."""

    def __init__(self, path: Path, connection: SqliteConnection) -> None:
        self._path = path
        self._connection = connection
        self._synchronous: int | None = None
        self._group: str | None = None
        """The group whose snapshots are looked at next; None for those of the cluster, with which they begin."""
        self._clean_through = -1
        """All rows up to this position that were trimmed are deleted, as far as this process knows."""

    async def begin_after(self, through: int, heads: Mapping[str | None, Head], *, trimmed_through: int) -> None:
        """Let the history begin after the position `through`, in the caller's transaction.

        `heads` are the last records of all groups. For a group of which all records are trimmed, that entry is stored
        in the file.
        """
        rows = [
            (group, head.event_number, head.coordinator_epoch, head.position)
            for group, head in heads.items()
            if trimmed_through < head.position <= through
        ]
        await self._connection.execute_many(sql.SAVE_TRIMMED_HEAD, rows)
        await self._connection.execute(sql.SET_COUNTER, (through, "trimmed_through"))
        await self._connection.execute("DELETE FROM cuts WHERE position < ?", (through,))
        self._group = None

    async def delete_portion(self, trimmed_through: int) -> bool:
        """Delete some of the rows before the beginning, in a transaction; returns whether there may be more.

        The transaction does not wait for the disk: a power failure may bring the rows back, and no reader sees them.
        """
        if self._clean_through == trimmed_through:
            return False
        if self._synchronous is None:
            self._synchronous = (await self._rows(Number, "PRAGMA synchronous"))[0].value
            # Many builds of SQLite overwrite deleted rows with zeros, which takes more than half of a portion's time.
            await self._connection.execute("PRAGMA secure_delete = OFF")
        await self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            await self._connection.execute("BEGIN IMMEDIATE")
            has_more = await self._delete_events(trimmed_through) or await self._delete_snapshots()
            await self._connection.execute("COMMIT")
        except BaseException:
            self._group = None
            with suppress(Exception):  # the caller gets the first error
                await self._connection.execute("ROLLBACK")
            raise
        finally:  # SQLite refuses this inside a transaction
            await self._connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        if not has_more:
            self._clean_through = trimmed_through
        return has_more

    async def _delete_events(self, trimmed_through: int) -> bool:
        limits = (trimmed_through, trimmed_through, MAX_PORTION_BYTES, MAX_PORTION_RECORDS)
        portion = (await self._rows(Portion, sql.TRIMMED_PORTION, limits))[0]
        await self._connection.execute(sql.DELETE_EVENTS, (portion.through,))
        return portion.count > 0

    async def _delete_snapshots(self) -> bool:
        """Delete old snapshots of some groups, and keep of each group the newest one up to the first cut; returns
        whether there may be more to delete."""
        limits = (self._group, MAX_PORTION_SNAPSHOTS, MAX_PORTION_SNAPSHOTS)
        rows = await self._rows(OldSnapshot, sql.OLD_SNAPSHOTS, limits)
        size = taken = 0
        for row in rows:
            if size > MAX_PORTION_BYTES:
                break
            size, taken, self._group = size + row.size, taken + 1, row.group
        await self._connection.execute_many(
            sql.DELETE_SNAPSHOT, [(row.row_id,) for row in rows[:taken] if row.row_id is not None]
        )
        if taken == len(rows) < MAX_PORTION_SNAPSHOTS:
            self._group = None
            return False
        return True

    async def _rows(self, row_type: type[Row], statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        return read_rows(self._path, await self._connection.execute(statement, parameters), row_type)
