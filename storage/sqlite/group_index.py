"""Where the records of each group are: a table that is filled at checkpoints, and not in every commit.

An index of SQLite would be changed by every commit, one page for each group in it, so that a commit of sixteen groups
would write some twenty pages of the log in place of two. The table has the records up to a position, `indexed_through`;
the few behind it are found by looking through them. Stores of version 2 have an index in place of the table.
"""

from pathlib import Path
from typing import Final

from regroup.storage.sqlite import statements as sql
from regroup.storage.sqlite.connection import SqliteConnection
from regroup.storage.sqlite.rows import GroupHead, Number, read_rows

ALL_POSITIONS: Final = 2**63 - 1
"""How far an index of SQLite reaches: it has every record."""

EXTEND: Final = """
    INSERT OR IGNORE INTO events_by_group
    SELECT ifnull("group", x''), event_number, position FROM events WHERE position > ? AND position <= ? ORDER BY 1, 2
"""

# It follows the table from one group to the next. Where a record of the table is missing, its columns are NULL.
HEADS: Final = """
    WITH RECURSIVE names (name) AS (
        SELECT min("group") FROM events_by_group
        UNION ALL
        SELECT (SELECT min("group") FROM events_by_group WHERE "group" > name) FROM names WHERE name IS NOT NULL
    ),
    lasts (name, position) AS (
        SELECT name, (SELECT position FROM events_by_group WHERE "group" = name ORDER BY event_number DESC LIMIT 1)
        FROM names WHERE name IS NOT NULL
    )
    SELECT event_number, coordinator_epoch, position, "group" FROM trimmed_heads
    UNION ALL
    SELECT events.event_number, events.coordinator_epoch, events.position, nullif(lasts.name, x'')
    FROM lasts LEFT JOIN events ON events.position = lasts.position
    UNION ALL
    SELECT * FROM (
        SELECT max(event_number), coordinator_epoch, position, "group" FROM events WHERE position > ? GROUP BY "group"
    )
"""

SELECT_INDEXED: Final = f"""
    SELECT {sql.columns_of("events")} FROM events_by_group AS placed CROSS JOIN events
    ON events.position = placed.position
    WHERE placed."group" = ifnull(?, x'') AND placed.event_number > ? AND placed.position > ? AND placed.position <= ?
    ORDER BY placed.event_number LIMIT {sql.CHUNK_SIZE}
"""

SELECT_BEHIND: Final = f"""
    SELECT {sql.RECORD_COLUMNS} FROM events
    WHERE "group" IS ? AND event_number > ? AND position > ? AND position <= ? ORDER BY position LIMIT {sql.CHUNK_SIZE}
"""


class GroupIndex:
    """Finds the records of one group in a store, and the last record of every group."""

    def __init__(self, path: Path, connection: SqliteConnection) -> None:
        self._path, self._connection = path, connection
        self._reach: int | None = None
        """What `reach` has returned to the only writer; None if it must be read."""

    def forget(self) -> None:
        """Drop the remembered position that the index reaches, so that it is read again: another process has written,
        or a transaction has failed."""
        self._reach = None

    async def reach(self) -> int:
        """The position up to which every record is in the index. It never becomes smaller."""
        if self._reach is None:
            rows = await self._connection.execute(sql.COUNTER, (sql.INDEXED_THROUGH,))
            counters = read_rows(self._path, rows, Number)
            self._reach = counters[0].value if counters else ALL_POSITIONS
        return self._reach

    async def extend(self, last_position: int) -> None:
        """Put the records up to this position into the index, in a transaction."""
        reach = await self.reach()
        if reach >= last_position:
            return
        await self._connection.execute("BEGIN IMMEDIATE")
        await self._connection.execute(EXTEND, (reach, last_position))
        await self._connection.execute(sql.SET_COUNTER, (last_position, sql.INDEXED_THROUGH))
        await self._connection.execute("COMMIT")
        self._reach = last_position

    async def heads(self) -> list[GroupHead]:
        """The last record of every group. A group with trimmed and with later records occurs twice: first with its last
        trimmed record."""
        reach = await self.reach()
        query = (sql.HEADS, ()) if reach == ALL_POSITIONS else (HEADS, (reach,))
        return read_rows(self._path, await self._connection.execute(*query), GroupHead)

    @staticmethod
    def query(group: str | None, event_number: int, after: int, last: int, reach: int) -> tuple[str, sql.SqlRow]:
        """The query for the next records of one group, and its parameters.

        They have an event number above `event_number`, and after < position <= last. All of these positions lie on one
        side of `reach`.
        """
        parameters = (group, event_number, after, last)
        if reach == ALL_POSITIONS:
            return sql.SELECT_BY_GROUP, parameters
        return SELECT_INDEXED if last <= reach else SELECT_BEHIND, parameters
