"""Reads and writes the fields of fault rules as text: error codes by Kafka's names, and durations such as `300ms`."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, get_type_hints

import msgspec

from regroup.notation.durations import format_duration, parse_exact_duration_ms
from regroup.protocol.errors import ErrorCode
from regroup.server.faults.rule import FaultRule, InvalidFault

CONDITIONS: Final = (
    "on",
    "version",
    "group",
    "member_id",
    "instance_id",
    "client_id",
    "topic",
    "partitions",
    "broker",
    "generation",
)
"""The fields of a rule that say which requests match."""
COUNTS: Final = ("skip", "times", "chance", "seed", "expires_after_s")
"""The fields of a rule that say how many of the matching requests are hit."""
EFFECTS: Final = (
    "hold",
    "delay_s",
    "answer",
    "partition_error",
    "drop",
    "close",
    "cut",
    "cut_at",
    "false_answer",
    "repeat",
    "answer_delay_s",
    "throttle_ms",
)
"""The fields of a rule that say what happens to a request that is hit."""

MAX_SHOWN_CHARACTERS: Final = 80

_HINTS: Final = get_type_hints(FaultRule)
_DEFAULTS: Final = {each.name: each.default for each in msgspec.structs.fields(FaultRule)}
_ERROR_CODES: Final = ("answer", "partition_error")
_SECONDS: Final = ("delay_s", "answer_delay_s", "expires_after_s")
_EXPECTED: Final[dict[object, str]] = {
    bool: "true or false",
    float: "a number",
    float | None: "a number",
    int: "a whole number",
    int | None: "a whole number",
    str: "text, in quotes if it looks like a number",
    tuple[int, ...]: "a list of whole numbers",
    str | tuple[str, ...]: "the name of an API, or a list of them",
}


def read_rule(fields: Mapping[str, object], *, from_text: bool = False) -> FaultRule:
    """Return the fault rule with these fields. Raises InvalidFault.

    With `from_text` every value is text, as in `times=2`, and is converted to the type of its field. Without it a text
    in place of a number is an error.
    """
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in _HINTS:
            nearest = get_close_matches(str(name), _HINTS, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(_HINTS)}"
            raise InvalidFault(f"unknown field {shown(name)}: {hint}")
        values[name] = _read(name, value, from_text)
    return FaultRule(**values)


def _read(name: str, value: object, from_text: bool) -> Any:
    if name in _ERROR_CODES and isinstance(value, str) and not _is_number(value, from_text):
        return _error_code(value)
    if isinstance(value, str) and name in _SECONDS and not _is_number(value, from_text):
        return _milliseconds(name, value) / 1_000
    if isinstance(value, str) and name == "throttle_ms" and not _is_number(value, from_text):
        return round(_milliseconds(name, value))
    if from_text and name in ("on", "partitions") and isinstance(value, str):
        value = tuple(filter(None, value.split(",")))
        value = value[0] if name == "on" and len(value) == 1 else value
    if name == "partitions" and isinstance(value, int) and not isinstance(value, bool):
        value = (value,)
    hint = _HINTS[name]
    try:
        return msgspec.convert(value, hint, strict=not from_text)
    except msgspec.ValidationError:
        known = getattr(hint, "__args__", ())
        words = [word for word in known if isinstance(word, str) and word]
        expected = f"one of {', '.join(words)}" if words else _EXPECTED[hint]
        raise InvalidFault(f"invalid {name}: {shown(value)}; give {expected}") from None


def _is_number(text: str, from_text: bool) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return from_text


def _error_code(text: str) -> ErrorCode:
    try:
        return ErrorCode[text]
    except KeyError:
        nearest = get_close_matches(text, ErrorCode.__members__, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else "give the name of an error code of Kafka, or its number"
        raise InvalidFault(f"unknown error code {shown(text)}: {hint}") from None


def _milliseconds(name: str, text: str) -> float:
    try:
        return parse_exact_duration_ms(text)
    except ValueError:
        raise InvalidFault(f"invalid {name}: {shown(text)}; give a duration such as 300ms, 5s or 1m") from None


def shown(value: object) -> str:
    """The repr of a value for an error message, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 3]}..."


def written_fields(rule: FaultRule, names: Iterable[str]) -> dict[str, str]:
    """The named fields of a rule that differ from their defaults, as text that `read_rule` can read."""
    return {name: _write(name, getattr(rule, name)) for name in names if getattr(rule, name) != _DEFAULTS[name]}


def _write(name: str, value: Any) -> str:
    if name in _ERROR_CODES:
        return ErrorCode(value).name if value in ErrorCode.__members__.values() else str(value)
    if name in _SECONDS:
        milliseconds = value * 1_000
        return format_duration(int(milliseconds)) if milliseconds == int(milliseconds) else repr(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "true" if value is True else str(value)
