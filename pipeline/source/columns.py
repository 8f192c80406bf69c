"""The columns of an event, told once: for SQLite, for Arrow and for Spark."""

from typing import Final, NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """A name, and what its values are."""

    name: str
    arrow: pa.DataType

    @property
    def spark(self) -> str:
        """As Spark's DDL has it."""
        return f"`{self.name}` {SPARK_NAMES[self.arrow]}"


SPARK_NAMES: Final = {pa.int64(): "BIGINT", pa.string(): "STRING"}

STORE: Final = Column("store", pa.string())
"""Which store the event is from: its file, or the run that wrote it."""

EVENT_COLUMNS: Final = (
    Column("position", pa.int64()),
    Column("group", pa.string()),
    Column("number", pa.int64()),
    Column("reign", pa.int64()),
    Column("at_ms", pa.int64()),
    Column("type", pa.string()),
    Column("version", pa.int64()),
    Column("payload", pa.string()),
    Column("cause", pa.string()),
)
"""As the table `events` of a store has them; `payload` and `cause` are JSON text."""

EVENTS: Final = ", ".join(column.spark for column in (STORE, *EVENT_COLUMNS))
"""The schema of what the source reads, and of bronze."""

SNAPSHOT: Final = "snapshot"
"""The event type of a row that stands for everything trimmed before it: the group's snapshot at that position."""
