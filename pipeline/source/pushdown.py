"""What Spark wants filtered, as SQL for a store."""

from collections.abc import Iterable, Mapping, Sequence
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

TEXTS: Final = ("group", "type")
NUMBERS: Final = ("position", "number", "reign", "at_ms", "version")
COMPARED: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "IS",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


class Condition(NamedTuple):
    """A part of a WHERE, with what stands in its question marks."""

    sql: str
    parameters: tuple[object, ...] = ()


class BadOption(ValueError):
    """An option of the source that cannot be meant."""


def pushed(wanted: Filter) -> Condition | None:
    """The filter as SQL; None if it is Spark's to apply."""
    column = column_of(wanted)
    if column not in (*TEXTS, *NUMBERS):
        return None
    name = f'"{column}"'
    if isinstance(wanted, IsNull | IsNotNull):
        return Condition(f"{name} IS {'NOT ' if isinstance(wanted, IsNotNull) else ''}NULL")
    if isinstance(wanted, In) and wanted.value and all(fits(column, value) for value in wanted.value):
        return Condition(f"{name} IN ({', '.join('?' * len(wanted.value))})", tuple(wanted.value))
    value = getattr(wanted, "value", None)
    if type(wanted) in COMPARED and fits(column, value):
        return Condition(f"{name} {COMPARED[type(wanted)]} ?", (value,))
    return None


def column_of(wanted: Filter) -> str:
    """The one column that a filter is about; empty if it is about none, or about a part of one."""
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    return path[0] if len(path) == 1 else ""


def fits(column: str, value: object) -> bool:
    return isinstance(value, str) if column in TEXTS else isinstance(value, int) and not isinstance(value, bool)


def from_options(options: Mapping[str, str]) -> list[Condition]:
    """The same filters as options: `group`, `type` (several with commas), `after`, `until` (positions). BadOption."""
    conditions = []
    if "group" in options:
        conditions.append(Condition('"group" = ?', (options["group"],)))
    if "type" in options:
        types = tuple(each.strip() for each in options["type"].split(","))
        conditions.append(Condition(f'"type" IN ({", ".join("?" * len(types))})', types))
    return conditions


def position_bounds(options: Mapping[str, str]) -> tuple[int, int | None]:
    """`after` and `until`: events with after < position <= until."""
    until = whole_number(options, "until") if "until" in options else None
    return whole_number(options, "after", 0), until


def whole_number(options: Mapping[str, str], name: str, usual: int = 0) -> int:
    text = options.get(name, str(usual))
    if not text.isascii() or not text.isdigit():
        raise BadOption(f"The option {name} of the format regroup is a whole number, not {text!r}.")
    return int(text)


def true_or_false(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise BadOption(f"The option {name} of the format regroup is true or false, not {options[name]!r}.")
    return text == "true"


def check_names(options: Mapping[str, str], known: Sequence[str]) -> None:
    """Spark hands on what it knows itself, and what nobody knows."""
    for name in options:
        if name not in known:
            raise BadOption(f"The format regroup has no option {name}; there are {', '.join(known)}.")


def as_sql(conditions: Iterable[Condition]) -> Condition:
    """All of them, to follow another condition."""
    conditions = list(conditions)
    parameters = tuple(value for condition in conditions for value in condition.parameters)
    return Condition(" ".join(f"AND {condition.sql}" for condition in conditions), parameters)


def narrowed(filters: Iterable[Filter], after: int, last: int) -> tuple[int, int]:
    """The range of positions that such filters leave of after < position <= last."""
    for each in filters:
        value = getattr(each, "value", None)
        if column_of(each) != "position" or not isinstance(value, int):
            continue
        if isinstance(each, GreaterThan | GreaterThanOrEqual | EqualTo | EqualNullSafe):
            after = max(after, value if isinstance(each, GreaterThan) else value - 1)
        if isinstance(each, LessThan | LessThanOrEqual | EqualTo | EqualNullSafe):
            last = min(last, value - 1 if isinstance(each, LessThan) else value)
    return after, last
