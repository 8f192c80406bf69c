"""The columns of an event, and of a recorded exchange, defined once for SQLite, Arrow and Spark."""

from collections.abc import Iterable
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

EXCHANGE_SCHEMA: Final = pa.schema(
    [
        ("block", pa.int64()),
        ("row", pa.int32()),
        ("number", pa.int64()),
        ("connection", pa.string()),
        ("client_host", pa.string()),
        ("at_ms", pa.int64()),
        ("last_at_ms", pa.int64()),
        ("request", pa.binary()),
        ("request_bytes", pa.int64()),
        ("ended_at_ms", pa.int64()),
        ("response", pa.binary()),
        ("response_bytes", pa.int64()),
        ("closed", pa.string()),
        ("fault", pa.string()),
        ("count", pa.int64()),
    ]
)
"""A row of a recorded exchange: the number of its block, its row within the block, and the fields of `ExchangeRow`."""

STORE_EXCHANGE_SCHEMA: Final = pa.schema([("store", pa.string()), *EXCHANGE_SCHEMA])

SPARK_TYPES: Final = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
}


def spark_ddl(schema: Iterable[pa.Field]) -> str:
    """The columns of an Arrow schema, or some of them, in Spark's DDL."""
    return ", ".join(f"`{field.name}` {SPARK_TYPES[field.type]}" for field in schema)


EVENTS_DDL: Final = spark_ddl(STORE_EVENT_SCHEMA)
"""`STORE_EVENT_SCHEMA` in Spark's DDL: the schema of the data source and of bronze."""

SNAPSHOT_TYPE: Final = "snapshot"
"""Event type of a row that replaces a group's trimmed events: the group's snapshot at that position."""
