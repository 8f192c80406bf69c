"""The tables of a store in SQLite, and their version."""

import sqlite3

APPLICATION_ID = 0x72_67_72_70
"""SQLite's `application_id` ("rgrp"), in the header of the file: it distinguishes a store from other SQLite files."""

SCHEMA_VERSION = 3
"""SQLite's `user_version`, in the header of the file. Raise it with every change of the tables."""

READABLE_VERSIONS = (2, SCHEMA_VERSION)
"""Versions of stores that are read and written as they are. In version 2 `events_by_group` is an index of SQLite."""

OPEN_WRITER = "open-writer"
"""The name of the value that is stored while a writer has the store open. A crash leaves it there."""

_OLD_PLACE = """"group" = ifnull(OLD."group", x'') AND event_number = OLD.event_number"""

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
    # Filled at checkpoints (group_index.py). The cluster, whose group is NULL in `events`, has an empty BLOB here.
    """
    CREATE TABLE events_by_group (
        "group"      NOT NULL,
        event_number INTEGER NOT NULL,
        position     INTEGER NOT NULL,
        PRIMARY KEY ("group", event_number)
    ) WITHOUT ROWID
    """,
    # As an index does, the table follows what happens to a record that it has.
    f"""
    CREATE TRIGGER event_deleted AFTER DELETE ON events BEGIN
        DELETE FROM events_by_group WHERE {_OLD_PLACE};
    END
    """,
    f"""
    CREATE TRIGGER event_moved AFTER UPDATE OF position, "group", event_number ON events BEGIN
        UPDATE events_by_group
        SET "group" = ifnull(NEW."group", x''), event_number = NEW.event_number, position = NEW.position
        WHERE {_OLD_PLACE};
    END
    """,
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
    # Two NULLs are never equal to SQLite, so rows of the cluster (whose group is NULL) need an index of their own.
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
    "INSERT INTO counters VALUES ('coordinator_epoch', 0), ('trimmed_through', 0), ('indexed_through', 0)",
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
