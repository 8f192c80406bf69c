"""Converts rows of a SQLite store to values, and checks the type of each column.

SQLite lets any column hold any type.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from regroup.storage.errors import StoreDamaged
from regroup.storage.numbers import StoredNumber
from regroup.storage.records import ExchangeBlock, Head, Record, Snapshot

Row = TypeVar("Row", bound=msgspec.Struct)


class GroupHead(Head, frozen=True, array_like=True):
    """The last record of a group's history (Head) with the id of the group, as a row of the query for all groups."""

    group: str | None


class Positions(msgspec.Struct, frozen=True, array_like=True):
    """The last position of the store, and the position up to which records have been trimmed."""

    last_position: StoredNumber
    trimmed_through: StoredNumber


class Number(msgspec.Struct, frozen=True, array_like=True):
    """A row with one number: a counter, or the position of a cut."""

    value: StoredNumber


class Size(msgspec.Struct, frozen=True, array_like=True):
    """A row with the number of a block of exchanges or observations, and the length of its payload in bytes."""

    number: StoredNumber
    size: StoredNumber


class Portion(msgspec.Struct, frozen=True, array_like=True):
    """Trimmed records that are deleted together: the position of the last one, and their number."""

    through: StoredNumber
    count: StoredNumber


class OldSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot that no cut needs any more: its group, its row, and the length of its payload in bytes.

    The row is None for a group that has no such snapshot.
    """

    group: str | None
    row_id: int | None
    size: StoredNumber


class Value(msgspec.Struct, frozen=True, array_like=True):
    """A row with one of the small named values of a store, as `EventStore.put_value` stores them."""

    value: bytes


def read_rows(path: Path, rows: Sequence[Any], row_type: type[Row]) -> list[Row]:
    """The rows of a query as values of this type. Raises StoreDamaged for a column of another type."""
    try:
        return msgspec.convert(rows, list[row_type])  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise StoreDamaged(
            f"{path} is damaged: {_first_fault(rows, row_type, error)}. Restore it from a copy."
        ) from None


def _first_fault(rows: Sequence[Any], row_type: type[Row], error: msgspec.ValidationError) -> str:
    """Describe the first value with a wrong type: its column, and the position in the store if the row has one."""
    place = re.search(r"\$\[(\d+)\]\[(\d+)\]", str(error))
    if place is None:
        return str(error)
    row, column = rows[int(place[1])], int(place[2])
    names = row_type.__struct_fields__
    at = f" at position {row[names.index('position')]}" if "position" in names and names[column] != "position" else ""
    return f"{_KINDS.get(row_type, 'a value')}{at} has the {names[column]} {_shortened(row[column])}"


_KINDS: dict[type[msgspec.Struct], str] = {
    Record: "the record",
    Snapshot: "the snapshot",
    GroupHead: "a group's last record",
    Positions: "the end of the history",
    Number: "a counter",
    Size: "the size of a block",
    Portion: "the size of a trimmed record",
    OldSnapshot: "the size of a snapshot",
    ExchangeBlock: "a block of exchanges",
    Value: "a named value",
}


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
