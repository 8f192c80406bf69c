"""The tables of a store, and how a file of an older version is brought up to date."""

import sqlite3
from collections.abc import Sequence

APPLICATION_ID = 0x72_67_72_70
"""SQLite keeps it in the file's header ("rgrp"): by this a store knows its own files."""

# Two NULLs are never equal to SQLite, so the cluster's own records (whose group is NULL) need an index of their own.
VERSION_1 = (
    """
    CREATE TABLE events (
        position INTEGER PRIMARY KEY,
        "group"  TEXT,
        number   INTEGER NOT NULL,
        reign    INTEGER NOT NULL,
        at_ms    INTEGER NOT NULL,
        type     TEXT    NOT NULL,
        version  INTEGER NOT NULL,
        payload  TEXT    NOT NULL,
        cause    TEXT
    )
    """,
    'CREATE UNIQUE INDEX events_by_group ON events ("group", number)',
    'CREATE UNIQUE INDEX events_of_cluster ON events (number) WHERE "group" IS NULL',
    """
    CREATE TABLE snapshots (
        "group"  TEXT,
        cut      INTEGER NOT NULL,
        number   INTEGER NOT NULL,
        position INTEGER NOT NULL,
        reign    INTEGER NOT NULL,
        version  INTEGER NOT NULL,
        payload  BLOB    NOT NULL
    )
    """,
    'CREATE UNIQUE INDEX snapshots_by_group ON snapshots ("group", cut)',
    'CREATE UNIQUE INDEX snapshots_of_cluster ON snapshots (cut) WHERE "group" IS NULL',
    "CREATE TABLE cuts (position INTEGER PRIMARY KEY)",
    # Where the history of a group ended whose last records were trimmed: its numbers must go on from there.
    """
    CREATE TABLE trimmed_heads (
        "group"  TEXT,
        number   INTEGER NOT NULL,
        reign    INTEGER NOT NULL,
        position INTEGER NOT NULL
    )
    """,
    'CREATE UNIQUE INDEX trimmed_heads_by_group ON trimmed_heads ("group")',
    'CREATE UNIQUE INDEX trimmed_head_of_cluster ON trimmed_heads ((1)) WHERE "group" IS NULL',
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO counters VALUES ('reign', 0), ('trimmed_through', 0)",
    "CREATE TABLE kept (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
)

Migration = Sequence[str]
MIGRATIONS: tuple[Migration, ...] = (VERSION_1,)
"""The n-th leads from version n - 1 to version n. Never change one that was released: add another."""


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring a file up to the newest version, one transaction for each step. The connection must be in autocommit."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for step, statements in enumerate(migrations[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {step}")
            connection.execute("COMMIT")
        except BaseException:
            # After a full disk SQLite may have rolled back by itself.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
