"""Structs as people write their fields: `session timeout: 10s` for `session_timeout_ms=10_000`.

    write_options(MemberPlan(session_timeout_ms=10_000))      {"session timeout": "10s"}
    read_options(MemberPlan, {"session timeout": "10s"})      {"session_timeout_ms": 10000}

What has its default is not written.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from difflib import get_close_matches
from typing import Any, Final, get_type_hints

import msgspec

from regroup.lab.plan.sentences import time_text

NAMES: Final = {"title": "story", "heal_ms": "faults end at", "bound_ms": "well again within"}
"""Fields that read better under another name."""
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)(ms|s|m|h)", re.ASCII)
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_WANTED: Final[dict[object, str]] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    str | None: "text",
    tuple[str, ...]: "a list such as [one, two]",
    Mapping[str, int]: "names with whole numbers, such as {orders: 4}",
    Mapping[str, str | int]: "names with values, such as {group.max.size: 3}",
}


class WrongText(ValueError):
    """Something in a file that cannot be understood. `about` is the word that is wrong."""

    def __init__(self, about: object, text: str) -> None:
        super().__init__(text)
        self.about = str(about)


def key_of(field: str) -> str:
    """What a field is called in a file."""
    return NAMES.get(field) or field.removesuffix("_ms").replace("_", " ")


def write_options(value: Any, *, all_of_them: bool = False) -> dict[str, Any]:
    """The fields that do not have their defaults, as they are written; structs inside as mappings of their own."""
    defaults = {} if all_of_them else _defaults(type(value))
    return {
        key_of(name): _write(name, getattr(value, name), all_of_them)
        for name in get_type_hints(type(value))
        if name not in defaults or getattr(value, name) != defaults[name]
    }


def read_options(kind: type[Any], given: object, what: str) -> dict[str, Any]:
    """The fields that a mapping gives values to. Raises WrongText; `what` says in its message what has the options."""
    if not isinstance(given, Mapping):
        raise WrongText(given, f"{what} takes options with values, not {given!r}")
    fields = {key_of(name): (name, hint) for name, hint in get_type_hints(kind).items()}
    values = {}
    for key, value in given.items():
        if key not in fields:
            raise WrongText(key, unknown(f"option of {what}", key, list(fields)))
        name, hint = fields[key]
        values[name] = _read(key, name, hint, value)
    return values


def unknown(kind: str, word: object, known: list[str]) -> str:
    """What to tell somebody who wrote a word that does not exist."""
    close = get_close_matches(str(word), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
    return f"there is no {kind} {word!r}; {hint}"


def _write(name: str, value: Any, all_of_them: bool) -> Any:
    if isinstance(value, msgspec.Struct) or is_dataclass(value):
        return write_options(value, all_of_them=all_of_them)
    if name.endswith("_ms"):
        return time_text(int(value)) if value == int(value) else f"{value!r}ms"
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(value) if isinstance(value, tuple) else value


def _read(key: str, name: str, hint: Any, value: object) -> Any:
    if isinstance(hint, type) and (issubclass(hint, msgspec.Struct) or is_dataclass(hint)):
        fields = read_options(hint, value, key)
        try:
            return hint(**fields)
        except ValueError as error:
            raise WrongText(key, str(error)) from None
    if name.endswith("_ms"):
        return _read_time(key, hint, value)
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError:
        raise WrongText(key, f"{key!r} takes {_WANTED.get(hint, hint)}, not {value!r}") from None


def _read_time(key: str, hint: type, value: object) -> float:
    match = _TIME.fullmatch(str(value))
    if match is None:
        raise WrongText(key, f"{key!r} takes a time such as 500ms, 20s or 5m, not {value!r}")
    time_ms = float(match[1]) * _UNIT_MS[match[2]]
    return round(time_ms) if hint is int else time_ms


def _defaults(kind: type[Any]) -> dict[str, Any]:
    if is_dataclass(kind):
        return {each.name: each.default for each in dataclass_fields(kind) if each.default is not MISSING}
    return {
        each.name: each.default_factory() if each.default_factory is not msgspec.NODEFAULT else each.default
        for each in msgspec.structs.fields(kind)
    }
