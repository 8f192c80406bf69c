"""Translates the filters of a Spark query to SQL conditions on a store's table of events."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

TEXT_COLUMNS: Final = ("group", "type")
NUMBER_COLUMNS: Final = ("position", "event_number", "coordinator_epoch", "at_ms", "version")
OPERATORS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "IS",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


class SqlCondition(NamedTuple):
    """A part of a WHERE clause, and the parameters of its question marks."""

    sql: str
    parameters: tuple[object, ...] = ()


def to_condition(wanted: Filter) -> SqlCondition | None:
    """The filter as an SQL condition; None if it cannot be expressed, so that Spark has to apply it."""
    column, value = filtered_column(wanted), getattr(wanted, "value", None)
    if column not in (*TEXT_COLUMNS, *NUMBER_COLUMNS):
        return None
    if isinstance(wanted, IsNull | IsNotNull):
        return SqlCondition(f"[{column}] IS {'NOT ' if isinstance(wanted, IsNotNull) else ''}NULL")
    if isinstance(wanted, In) and wanted.value and all(has_column_type(column, each) for each in wanted.value):
        return one_of(column, wanted.value)
    if type(wanted) in OPERATORS and has_column_type(column, value):
        return SqlCondition(f"[{column}] {OPERATORS[type(wanted)]} ?", (value,))
    return None


def filtered_column(wanted: Filter) -> str:
    """The name of the column to which a filter applies; empty if it has none, or if it is a field within a column."""
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    return path[0] if len(path) == 1 else ""


def has_column_type(column: str, value: object) -> bool:
    return isinstance(value, str) if column in TEXT_COLUMNS else isinstance(value, int) and not isinstance(value, bool)


def one_of(column: str, values: Iterable[object]) -> SqlCondition:
    parameters = tuple(values)
    return SqlCondition(f"[{column}] IN ({', '.join('?' * len(parameters))})", parameters)


def narrow_positions(filters: Iterable[Filter], after: int, last: int) -> tuple[int, int]:
    """The part of the range after < position <= last that the filters leave, as a new `after` and `last`."""
    for each in filters:
        value = getattr(each, "value", None)
        if filtered_column(each) != "position" or not isinstance(value, int):
            continue
        if isinstance(each, GreaterThan | GreaterThanOrEqual | EqualTo | EqualNullSafe):
            after = max(after, value if isinstance(each, GreaterThan) else value - 1)
        if isinstance(each, LessThan | LessThanOrEqual | EqualTo | EqualNullSafe):
            last = min(last, value - 1 if isinstance(each, LessThan) else value)
    return after, last
