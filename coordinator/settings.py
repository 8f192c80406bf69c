"""The coordinator's settings, under the names that Kafka's `server.properties` gives them, and how any are read."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Final, Self, TypeAlias

import msgspec
from msgspec import inspect

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
MOST_PARTITIONS: Final = 10_000
"""Of a topic that is made: each of them costs memory here, though Kafka would take any number."""

Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=MAX_INT)]
"""A number for which Kafka has no limits but those of its type."""
PositiveInt: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT)]
PositiveLong: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_LONG)]
Partitions: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MOST_PARTITIONS)]


class UnknownSetting(ValueError):
    """No setting has this name; the message names the nearest one."""


class InvalidSetting(ValueError):
    """The value does not fit the setting; the message says what would."""


class NamedSettings(msgspec.Struct, frozen=True, kw_only=True, rename=lambda field: field.replace("_", ".")):
    """Settings that go by Kafka's names, outside, and by the same with `_` in place of `.` in here.

    What a field may be stands in its type. InvalidSetting is raised for anything else, however it was made.
    """

    def __post_init__(self) -> None:
        for name, field in fields_of(type(self)).items():
            if isinstance(field.type, inspect.IntType):
                check_limits(name, getattr(self, field.name), field.type.ge, field.type.le)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Every setting by its Kafka name."""
        return tuple(fields_of(cls))

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """Read settings as they are typed; raises UnknownSetting or InvalidSetting, naming the setting."""
        known = fields_of(cls)
        for name in texts:
            if name not in known:
                raise UnknownSetting(unknown_setting(name, known))
        return cls(**{known[name].name: parsed(name, text, known[name].type) for name, text in texts.items()})

    def by_name(self) -> dict[str, int]:
        """Every setting and its value, by Kafka name."""
        return {name: getattr(self, field.name) for name, field in fields_of(type(self)).items()}


class Settings(NamedSettings, frozen=True, kw_only=True):
    """What Kafka lets an operator decide about classic groups. Times are milliseconds unless the name says otherwise.

    Settings.from_texts({"group.initial.rebalance.delay.ms": "0"})
    """

    group_min_session_timeout_ms: Int = 6_000
    """The smallest session timeout that a member may ask for; this value itself is accepted."""
    group_max_session_timeout_ms: Int = 1_800_000
    """The largest one; this value itself is accepted."""
    group_initial_rebalance_delay_ms: Int = 3_000
    """How long the first rebalance of an Empty group waits for more members (KIP-134)."""
    group_max_size: PositiveInt = MAX_INT
    """The most members of one group (KIP-389)."""
    offset_metadata_max_bytes: Int = 4_096
    """The longest note beside an offset, counted in UTF-16 units in spite of the name."""
    offsets_retention_minutes: PositiveInt = 10_080
    """How long offsets outlive their group, or their commit in a group without members (KIP-211)."""
    offsets_retention_check_interval_ms: PositiveLong = 600_000
    """How often the coordinator looks for offsets and groups to forget."""
    offsets_topic_num_partitions: Partitions = 50
    """Partitions of `__consumer_offsets`: a group's id decides in which of them it lives."""
    offsets_commit_timeout_ms: PositiveInt = 5_000
    """How long a write to the emulated log may wait to be committed."""


@cache
def fields_of(kind: type[NamedSettings]) -> Mapping[str, inspect.Field]:
    """The settings by their Kafka names, each with what it may be."""
    shape = inspect.type_info(kind)
    assert isinstance(shape, inspect.StructType), "settings are a struct"
    return {field.encode_name: field for field in shape.fields}


def unknown_setting(name: str, known: Collection[str]) -> str:
    """What to tell somebody who named a setting that does not exist."""
    nearest = get_close_matches(name, known, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(sorted(known))}"
    return f"There is no setting {name}: {hint}"


def parsed(name: str, text: str, kind: inspect.Type) -> int | bool:
    """A value as typed, for a field of this type. Its limits are looked at when the settings are made."""
    return parse_truth(name, text) if isinstance(kind, inspect.BoolType) else parse_whole_number(name, text)


def parse_truth(name: str, text: str) -> bool:
    """`true` or `false`, in any case. InvalidSetting."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidSetting(f"{name} is either true or false, not {text!r}")
    return word == "true"


def parse_whole_number(name: str, text: str) -> int:
    """A whole number, however large. InvalidSetting."""
    try:
        return int(text)
    except ValueError:
        raise InvalidSetting(f"{name} takes a whole number, not {text!r}") from None


def check_limits(name: str, value: int, least: int | None, most: int | None) -> None:
    """Both limits are allowed values themselves. InvalidSetting."""
    if least is not None and value < least:
        raise InvalidSetting(f"{name} must be at least {least}, not {value}")
    if most is not None and value > most:
        raise InvalidSetting(f"{name} must be at most {most}, not {value}")
