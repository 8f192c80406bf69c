"""The tables of a store in SQLite, and their version."""

import sqlite3

APPLICATION_ID = 0x72_67_72_70
"""SQLite's `application_id` ("rgrp"), in the header of the file: it distinguishes a store from other SQLite files."""

SCHEMA_VERSION = 2
"""SQLite's `user_version`, in the header of the file. Raise it with every change of the tables."""

OPEN_WRITER = "open-writer"
"""The name of the value that is stored while a writer has the store open. A crash leaves it there."""

# Two NULLs are never equal to SQLite, so the cluster's own records (whose group is NULL) need an index of their own.
_TABLES = (
    """
    CREATE TABLE events (
        position          INTEGER PRIMARY KEY,
        "group"           TEXT,
        event_number      INTEGER NOT NULL,
        coordinator_epoch INTEGER NOT NULL,
        at_ms             INTEGER NOT NULL,
        type              TEXT    NOT NULL,
        version           INTEGER NOT NULL,
        payload           TEXT    NOT NULL,
        cause             TEXT
    )
    """,
    'CREATE UNIQUE INDEX events_by_group ON events ("group", event_number)',
    'CREATE UNIQUE INDEX events_of_cluster ON events (event_number) WHERE "group" IS NULL',
    """
    CREATE TABLE snapshots (
        "group"           TEXT,
        cut               INTEGER NOT NULL,
        event_number      INTEGER NOT NULL,
        position          INTEGER NOT NULL,
        coordinator_epoch INTEGER NOT NULL,
        version           INTEGER NOT NULL,
        payload           BLOB    NOT NULL
    )
    """,
    'CREATE UNIQUE INDEX snapshots_by_group ON snapshots ("group", cut)',
    'CREATE UNIQUE INDEX snapshots_of_cluster ON snapshots (cut) WHERE "group" IS NULL',
    "CREATE TABLE cuts (position INTEGER PRIMARY KEY)",
    # The heads of groups whose last records were trimmed: their next event numbers must continue from there.
    """
    CREATE TABLE trimmed_heads (
        "group"           TEXT,
        event_number      INTEGER NOT NULL,
        coordinator_epoch INTEGER NOT NULL,
        position          INTEGER NOT NULL
    )
    """,
    'CREATE UNIQUE INDEX trimmed_heads_by_group ON trimmed_heads ("group")',
    'CREATE UNIQUE INDEX trimmed_head_of_cluster ON trimmed_heads ((1)) WHERE "group" IS NULL',
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO counters VALUES ('coordinator_epoch', 0), ('trimmed_through', 0)",
    "CREATE TABLE named_values (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file, in one transaction. The connection must be in autocommit mode."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have rolled back by itself, for example when the disk is full
            connection.execute("ROLLBACK")
        raise
