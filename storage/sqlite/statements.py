"""The SQL of a store, and its rows as records."""

from collections.abc import Collection, Iterable

from regroup.storage.errors import StoreFailed
from regroup.storage.records import NewRecord

Row = tuple[object, ...]

CHUNK = 4096
"""Positions, or a group's records, that one query reads."""

# In the order of Record's fields. As a BLOB, Python is handed the bytes of the text without decoding it.
RECORD = '"group", number, reign, at_ms, type, version, CAST(payload AS BLOB), CAST(cause AS BLOB), position'

INSERT_RECORD = """
    INSERT INTO events ("group", number, reign, at_ms, type, version, payload, cause, position)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Each size is a statement of its own in sqlite3's cache, which holds 128.
ROWS_IN_ONE_STATEMENT = 64
INSERT_RECORDS = [INSERT_RECORD + ", (?, ?, ?, ?, ?, ?, ?, ?, ?)" * more for more in range(ROWS_IN_ONE_STATEMENT)]

POSITIONS = """
    SELECT max(ifnull((SELECT max(position) FROM events), 0), value), value
    FROM counters WHERE name = 'trimmed_through'
"""

# A plain GROUP BY would walk every record; this leaps along the index from one group's name to the next.
HEADS = """
    WITH RECURSIVE names (name) AS (
        SELECT min("group") FROM events
        UNION ALL
        SELECT (SELECT min("group") FROM events WHERE "group" > name) FROM names WHERE name IS NOT NULL
    ),
    lasts (name, number) AS (
        SELECT name, (SELECT max(number) FROM events WHERE "group" = name) FROM names WHERE name IS NOT NULL
        UNION ALL
        SELECT NULL, max(number) FROM events INDEXED BY events_of_cluster WHERE "group" IS NULL
    )
    SELECT "group", number, reign, position FROM trimmed_heads
    UNION ALL
    SELECT events."group", events.number, events.reign, events.position
    FROM lasts CROSS JOIN events ON events."group" IS lasts.name AND events.number = lasts.number
"""

SAVE_SNAPSHOT = """
    INSERT OR REPLACE INTO snapshots ("group", cut, number, position, reign, version, payload)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""

NEWEST_CUT = "SELECT max(position) FROM cuts WHERE position <= ?"

CUTS = "SELECT position FROM cuts ORDER BY position"

NEWEST_SNAPSHOTS = """
    SELECT "group", number, position, reign, version, payload FROM snapshots AS this
    WHERE cut = (SELECT max(cut) FROM snapshots WHERE "group" IS this."group" AND cut <= ?)
    ORDER BY "group"
"""

# SQLite takes the bare columns from the row that holds the maximum.
REMEMBER_HEADS = """
    INSERT OR REPLACE INTO trimmed_heads ("group", number, reign, position)
    SELECT "group", max(number), reign, position FROM events WHERE position <= ? GROUP BY "group"
"""

FORGET_SNAPSHOTS = """
    DELETE FROM snapshots WHERE EXISTS (
        SELECT 1 FROM snapshots AS newer WHERE newer."group" IS snapshots."group" AND newer.cut > snapshots.cut
        AND newer.cut <= (SELECT min(position) FROM cuts)
    )
"""

COUNT_UP = "UPDATE counters SET value = value + 1 WHERE name = ?"
SET_COUNTER = "UPDATE counters SET value = ? WHERE name = ?"
COUNTER = "SELECT value FROM counters WHERE name = ?"
KEEP = "INSERT OR REPLACE INTO kept (name, value) VALUES (?, ?)"
KEPT = "SELECT value FROM kept WHERE name = ?"


def rows_of(records: Iterable[NewRecord], first: int) -> list[Row]:
    """The rows of new records, the first of them at position `first`. Raises StoreFailed if one is not text."""
    try:
        return [
            (
                record.group,
                record.number,
                record.reign,
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


def select_by_position(after: int, last: int, types: Collection[str] | None) -> tuple[str, Row]:
    """Every group's records in one window of positions; however rare the types, the work is bounded."""
    wanted, names = of_types(types)
    sql = f"SELECT {RECORD} FROM events WHERE position > ? AND position <= ? {wanted} ORDER BY position"
    return sql, (after, last, *names)


def select_of_group(
    group: str | None, number: int, after: int, last: int, types: Collection[str] | None
) -> tuple[str, Row]:
    """The next records of one group behind its record `number`."""
    wanted, names = of_types(types)
    sql = (
        f"SELECT {RECORD} FROM events INDEXED BY events_by_group "
        f'WHERE "group" IS ? AND number > ? AND position > ? AND position <= ? {wanted} ORDER BY number LIMIT {CHUNK}'
    )
    return sql, (group, number, after, last, *names)


def of_types(types: Collection[str] | None) -> tuple[str, list[str]]:
    """The part of a WHERE that asks for these types, and its parameters, in a fixed order."""
    if types is None:
        return "", []
    names = sorted(types)
    return f"AND type IN ({', '.join('?' * len(names))})", names
