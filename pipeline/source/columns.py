"""The columns of an event, defined once for SQLite, Arrow and Spark."""

from typing import Final

import pyarrow as pa

EVENT_SCHEMA: Final = pa.schema(
    [
        ("position", pa.int64()),
        ("group", pa.string()),
        ("event_number", pa.int64()),
        ("coordinator_epoch", pa.int64()),
        ("at_ms", pa.int64()),
        ("type", pa.string()),
        ("version", pa.int64()),
        ("payload", pa.string()),
        ("cause", pa.string()),
    ]
)
"""Columns of a store's table `events`. `payload` and `cause` are JSON text."""

STORE_EVENT_SCHEMA: Final = pa.schema([("store", pa.string()), *EVENT_SCHEMA])
"""Columns of an event with its store: the path of the store's file, or the name of the run that wrote it."""

SPARK_TYPES: Final = {pa.int64(): "BIGINT", pa.string(): "STRING"}
EVENTS_DDL: Final = ", ".join(f"`{field.name}` {SPARK_TYPES[field.type]}" for field in STORE_EVENT_SCHEMA)
"""`STORE_EVENT_SCHEMA` in Spark's DDL: the schema of the data source and of bronze."""

SNAPSHOT_TYPE: Final = "snapshot"
"""Event type of a row that replaces a group's trimmed events: the group's snapshot at that position."""
