"""The SQL statements of a store, and the conversion of records to rows."""

from collections.abc import Iterable
from typing import NamedTuple

from regroup.storage.errors import StoreFailed
from regroup.storage.records import NewRecord

SqlRow = tuple[object, ...]

CHUNK_SIZE = 4096
"""How many records one query reads."""

INDEXED_THROUGH = "indexed_through"
"""The name of the counter that says up to which position `events_by_group` has the records of all groups."""


def columns_of(table: str) -> str:
    """The columns of a record, in the order of Record's fields.

    Cast to BLOB, a text reaches Python as bytes and is not decoded.
    """
    names = ("group", "event_number", "coordinator_epoch", "at_ms", "type", "version", "payload", "cause", "position")
    return ", ".join(
        f'CAST({table}."{name}" AS BLOB)' if name in ("payload", "cause") else f'{table}."{name}"' for name in names
    )


RECORD_COLUMNS = columns_of("events")

INSERT_RECORD = """
    INSERT INTO events ("group", event_number, coordinator_epoch, at_ms, type, version, payload, cause, position)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
MAX_ROWS_PER_STATEMENT = 64
# Each number of rows is a statement of its own in sqlite3's statement cache, which holds 128.
INSERT_RECORDS = [INSERT_RECORD + ", (?, ?, ?, ?, ?, ?, ?, ?, ?)" * more for more in range(MAX_ROWS_PER_STATEMENT)]

POSITIONS = """
    SELECT max(ifnull((SELECT max(position) FROM events), 0), value), value
    FROM counters WHERE name = 'trimmed_through'
"""

# For stores of version 2. A plain GROUP BY would read every record; this follows the index from name to name.
HEADS = """
    WITH RECURSIVE names (name) AS (
        SELECT min("group") FROM events
        UNION ALL
        SELECT (SELECT min("group") FROM events WHERE "group" > name) FROM names WHERE name IS NOT NULL
    ),
    lasts (name, event_number) AS (
        SELECT name, (SELECT max(event_number) FROM events WHERE "group" = name) FROM names WHERE name IS NOT NULL
        UNION ALL
        SELECT NULL, max(event_number) FROM events INDEXED BY events_of_cluster WHERE "group" IS NULL
    )
    SELECT event_number, coordinator_epoch, position, "group" FROM trimmed_heads
    UNION ALL
    SELECT events.event_number, events.coordinator_epoch, events.position, events."group"
    FROM lasts CROSS JOIN events ON events."group" IS lasts.name AND events.event_number = lasts.event_number
"""

# For stores of version 2.
SELECT_BY_GROUP = (
    f'SELECT {RECORD_COLUMNS} FROM events INDEXED BY events_by_group WHERE "group" IS ? AND event_number > ? '
    f"AND position > ? AND position <= ? ORDER BY event_number LIMIT {CHUNK_SIZE}"
)

SAVE_SNAPSHOT = """
    INSERT OR REPLACE INTO snapshots ("group", cut, event_number, position, coordinator_epoch, version, payload)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""

NEWEST_CUT = "SELECT position FROM cuts WHERE position <= ? ORDER BY position DESC LIMIT 1"

CUTS = "SELECT position FROM cuts ORDER BY position"

# As for heads, it follows the index from one group to the next: a long history has a snapshot of each at every cut.
_NAMES_OF_SNAPSHOTS = """
    names (name, number) AS (
        VALUES (?, 1)
        UNION ALL
        SELECT CASE WHEN name IS NULL THEN (SELECT min("group") FROM snapshots)
               ELSE (SELECT min("group") FROM snapshots WHERE "group" > name) END, number + 1
        FROM names WHERE name IS NOT NULL OR number = 1
        LIMIT ?
    )
"""
"""The groups that have snapshots, from one on, with their numbers from 1; NULL stands for the cluster, which is first.
There may be one more row, with NULL, at the end."""

_NEWEST_SNAPSHOTS = f"""
    WITH RECURSIVE {_NAMES_OF_SNAPSHOTS}
    SELECT "group", event_number, position, coordinator_epoch, version, CAST(payload AS BLOB)
    FROM names CROSS JOIN snapshots ON "group" IS name AND cut = (
        SELECT max(cut) FROM snapshots AS newest WHERE newest."group" IS name AND newest.cut <= ?
    )
    WHERE number = 1 OR name IS NOT NULL
    ORDER BY "group"
"""


def select_newest_snapshots(cut: int) -> tuple[str, SqlRow]:
    """The query for each group's newest snapshot up to this cut, and its parameters."""
    return _NEWEST_SNAPSHOTS, (None, -1, cut)


SAVE_TRIMMED_HEAD = """
    INSERT OR REPLACE INTO trimmed_heads ("group", event_number, coordinator_epoch, position) VALUES (?, ?, ?, ?)
"""

# It adds records one by one, and so reads no more of them than it deletes.
TRIMMED_PORTION = """
    WITH RECURSIVE portion (position, size) AS (
        SELECT position, size FROM (
            SELECT position, length(payload) AS size FROM events WHERE position <= ? ORDER BY position LIMIT 1
        )
        UNION ALL
        SELECT events.position, portion.size + length(events.payload)
        FROM portion CROSS JOIN events
        ON events.position = (SELECT min(position) FROM events WHERE position > portion.position)
        WHERE events.position <= ? AND portion.size <= ?
        LIMIT ?
    )
    SELECT ifnull(max(position), 0), count(*) FROM portion
"""
DELETE_EVENTS = "DELETE FROM events WHERE position <= ?"

# The groups from one on, each with its snapshots before the one that the first cut needs. A group
# without such snapshots has one row with NULL, so that the last row shows how far the query has come.
OLD_SNAPSHOTS = f"""
    WITH RECURSIVE {_NAMES_OF_SNAPSHOTS}
    SELECT name, old.rowid, ifnull(length(old.payload), 0)
    FROM names LEFT JOIN snapshots AS old ON old."group" IS name AND old.cut < (
        SELECT max(cut) FROM snapshots AS needed
        WHERE needed."group" IS name AND needed.cut <= (SELECT min(position) FROM cuts)
    )
    WHERE number = 1 OR name IS NOT NULL
    LIMIT ?
"""
DELETE_SNAPSHOT = "DELETE FROM snapshots WHERE rowid = ?"

INCREMENT_COUNTER = "UPDATE counters SET value = value + 1 WHERE name = ?"
SET_COUNTER = "UPDATE counters SET value = ? WHERE name = ?"
COUNTER = "SELECT value FROM counters WHERE name = ?"
PUT_VALUE = "INSERT OR REPLACE INTO named_values (name, value) VALUES (?, ?)"
GET_VALUE = "SELECT value FROM named_values WHERE name = ?"
DELETE_VALUE = "DELETE FROM named_values WHERE name = ?"


class BlockStatements(NamedTuple):
    """The SQL statements for one table of blocks."""

    create: str
    exists: str
    insert: str
    total_bytes: str
    oldest: str
    delete: str
    next: str


def block_statements(table: str) -> BlockStatements:
    """The SQL statements for the table of blocks with this name.

    The table is made with the first block, so a store of the same format version may have it or not.
    """
    return BlockStatements(
        create=f"""
            CREATE TABLE IF NOT EXISTS {table} (
                number   INTEGER PRIMARY KEY,
                first_ms INTEGER NOT NULL,
                last_ms  INTEGER NOT NULL,
                count    INTEGER NOT NULL,
                payload  BLOB    NOT NULL
            )
        """,
        exists=f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{table}'",
        insert=f"INSERT INTO {table} (first_ms, last_ms, count, payload) VALUES (?, ?, ?, ?)",
        total_bytes=f"SELECT ifnull(sum(length(payload)), 0) FROM {table}",
        oldest=f"""
            SELECT number, length(payload) FROM {table} WHERE number < (SELECT max(number) FROM {table})
            ORDER BY number LIMIT ?
        """,
        delete=f"DELETE FROM {table} WHERE number <= ?",
        next=f"""
            SELECT first_ms, last_ms, count, CAST(payload AS BLOB), number FROM {table}
            WHERE number > ? AND last_ms >= ? AND first_ms <= ? ORDER BY number LIMIT 1
        """,
    )


def rows_from_records(records: Iterable[NewRecord], first: int) -> list[SqlRow]:
    """The rows of new records for SQLite; the first record gets the position `first`.

    Raises StoreFailed if a payload or a cause is not UTF-8.
    """
    try:
        return [
            (
                record.group,
                record.event_number,
                record.coordinator_epoch,
                record.at_ms,
                record.type,
                record.version,
                record.payload.decode(),
                None if record.cause is None else record.cause.decode(),
                position,
            )
            for position, record in enumerate(records, first)
        ]
    except UnicodeDecodeError as error:
        raise StoreFailed(f"A record's payload or cause is not UTF-8 ({error}): write JSON text.") from error


def select_by_position(after: int, last: int) -> tuple[str, SqlRow]:
    """The query for the next records with after < position <= last, and its parameters.

    Its limit counts records and not positions: a damaged position may be any number.
    """
    sql = (
        f"SELECT {RECORD_COLUMNS} FROM events WHERE position > ? AND position <= ? ORDER BY position LIMIT {CHUNK_SIZE}"
    )
    return sql, (after, last)
