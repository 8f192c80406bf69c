"""The coordinator's settings, under the names that Kafka's `server.properties` gives them."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Self

import msgspec

MAX_INT = 2**31 - 1


class UnknownSetting(ValueError):
    """No setting has this name; the message names the nearest one."""


class InvalidSetting(ValueError):
    """The value does not fit the setting; the message says what would."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What Kafka lets an operator decide about classic groups. Times are milliseconds unless the name says otherwise.

    Settings.from_texts({"group.initial.rebalance.delay.ms": "0"})
    """

    group_min_session_timeout_ms: int = 6_000
    """The smallest session timeout that a member may ask for; this value itself is accepted."""
    group_max_session_timeout_ms: int = 1_800_000
    """The largest one; this value itself is accepted."""
    group_initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of an Empty group waits for more members (KIP-134)."""
    group_max_size: int = MAX_INT
    """The most members of one group (KIP-389)."""
    offset_metadata_max_bytes: int = 4_096
    """The longest note beside an offset, counted in UTF-16 units in spite of the name."""
    offsets_retention_minutes: int = 10_080
    """How long offsets outlive their group, or their commit in a group without members (KIP-211)."""
    offsets_retention_check_interval_ms: int = 600_000
    """How often the coordinator looks for offsets and groups to forget."""
    offsets_topic_num_partitions: int = 50
    """Partitions of `__consumer_offsets`: a group's id decides in which of them it lives."""
    offsets_commit_timeout_ms: int = 5_000
    """How long a write to the emulated log may wait to be committed."""

    def __post_init__(self) -> None:
        for field in POSITIVE:
            if getattr(self, field) < 1:
                raise InvalidSetting(f"{kafka_name(field)} must be at least 1, not {getattr(self, field)}.")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Every setting by its Kafka name."""
        return tuple(kafka_name(field) for field in cls.__struct_fields__)

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """Read settings as they are typed; raises UnknownSetting or InvalidSetting, naming the setting."""
        return cls(**{field_name(name, cls.names()): number(name, text) for name, text in texts.items()})

    def by_name(self) -> dict[str, int]:
        """Every setting and its value, by Kafka name."""
        return {kafka_name(field): getattr(self, field) for field in self.__struct_fields__}


POSITIVE = (
    "group_max_size",
    "offsets_retention_minutes",
    "offsets_retention_check_interval_ms",
    "offsets_topic_num_partitions",
    "offsets_commit_timeout_ms",
)


def kafka_name(field: str) -> str:
    """`group.max.size` for `group_max_size`."""
    return field.replace("_", ".")


def field_name(name: str, known: tuple[str, ...]) -> str:
    """The field of a setting; an unknown name is refused together with the nearest known one."""
    if name in known:
        return name.replace(".", "_")
    nearest = get_close_matches(name, known, n=1)
    hint = f"Did you mean {nearest[0]}?" if nearest else f"Known are: {', '.join(known)}."
    raise UnknownSetting(f"There is no setting {name!r}. {hint}")


def number(name: str, text: str) -> int:
    """A whole number as typed."""
    try:
        return int(text)
    except ValueError:
        raise InvalidSetting(f"{name} takes a whole number, not {text!r}, for example {name}=3000.") from None
