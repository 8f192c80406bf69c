"""Reads and writes structs as YAML mappings: `session timeout: 10s` for `session_timeout_ms=10_000`.

    write_options(MemberPlan(session_timeout_ms=10_000))      {"session timeout": "10s"}
    read_options(MemberPlan, {"session timeout": "10s"})      {"session_timeout_ms": 10000}

Fields with their default values are not written.
"""

from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from difflib import get_close_matches
from typing import Any, Final, get_type_hints

import msgspec

from regroup.notation.durations import format_duration, parse_exact_duration_ms

OPTION_NAMES: Final = {
    "title": "scenario",
    "faults_end_ms": "faults end at",
    "recovery_timeout_ms": "recovers within",
}
"""By field, the option for it, where that is not the name of the field with blanks and without its unit."""
_RENAMED_OPTIONS: Final = {
    "story": "scenario",
    "happenings": "steps",
    "habits": "faults",
    "well again within": "recovers within",
}
"""Options of the first scenario format, which are not read any more, and the option that replaces each."""
_EXPECTED: Final[dict[object, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    str | None: "text",
    tuple[str, ...]: "a list such as [one, two]",
    Mapping[str, int]: "names with whole numbers, such as {orders: 4}",
    Mapping[str, str | int]: "names with values, such as {group.max.size: 3}",
}


class InvalidScenarioOption(ValueError):
    """A word in a scenario file that cannot be understood. `about` is that word."""

    def __init__(self, about: object, text: str) -> None:
        super().__init__(text)
        self.about = str(about)


def option_name(field: str) -> str:
    """The option that stands for a field: the field's name with blanks, without the unit."""
    return OPTION_NAMES.get(field) or field.removesuffix("_ms").replace("_", " ")


def write_options(value: Any, *, include_defaults: bool = False) -> dict[str, Any]:
    """The options of a struct, as far as they differ from their defaults; nested structs are nested mappings."""
    defaults = {} if include_defaults else _defaults(type(value))
    return {
        option_name(name): _write(name, getattr(value, name), include_defaults)
        for name in get_type_hints(type(value))
        if name not in defaults or getattr(value, name) != defaults[name]
    }


def read_options(kind: type[Any], given: object, owner: str) -> dict[str, Any]:
    """The fields of a struct from its options. Raises InvalidScenarioOption; `owner` names the struct in its text."""
    if not isinstance(given, Mapping):
        raise InvalidScenarioOption(given, f"{owner} takes options with values, not {given!r}")
    fields = {option_name(name): (name, hint) for name, hint in get_type_hints(kind).items()}
    values = {}
    for key, value in given.items():
        if key not in fields:
            raise InvalidScenarioOption(key, unknown_option(owner, key, list(fields)))
        name, hint = fields[key]
        values[name] = _read(key, name, hint, value)
    return values


def unknown_option(owner: str, option: object, known: list[str]) -> str:
    """The message for an unknown option."""
    if option in _RENAMED_OPTIONS:
        return f"option {option!r} of {owner} is now {_RENAMED_OPTIONS[str(option)]!r}"
    nearest = get_close_matches(str(option), known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {', '.join(known)}"
    return f"unknown option of {owner}: {option!r}; {hint}"


def _write(name: str, value: Any, include_defaults: bool) -> Any:
    if isinstance(value, msgspec.Struct) or is_dataclass(value):
        return write_options(value, include_defaults=include_defaults)
    if name.endswith("_ms"):
        return format_duration(int(value), with_fractions=True) if value == int(value) else f"{value!r}ms"
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
            raise InvalidScenarioOption(key, str(error)) from None
    if name.endswith("_ms"):
        return _read_duration(key, hint, value)
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError:
        raise InvalidScenarioOption(key, f"{key!r} takes {_EXPECTED.get(hint, hint)}, not {value!r}") from None


def _read_duration(key: str, hint: type, value: object) -> float:
    try:
        milliseconds = parse_exact_duration_ms(str(value))
    except ValueError:
        message = f"{key!r} takes a duration such as 500ms, 20s or 5m, not {value!r}"
        raise InvalidScenarioOption(key, message) from None
    return round(milliseconds) if hint is int else milliseconds


def _defaults(kind: type[Any]) -> dict[str, Any]:
    if is_dataclass(kind):
        return {each.name: each.default for each in dataclass_fields(kind) if each.default is not MISSING}
    return {
        each.name: each.default_factory() if each.default_factory is not msgspec.NODEFAULT else each.default
        for each in msgspec.structs.fields(kind)
    }
