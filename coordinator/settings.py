"""The coordinator's settings, named as in Kafka's `server.properties`, and the base class of all such settings."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from enum import Enum, StrEnum
from functools import cache
from typing import Annotated, Final, Self, TypeAlias

import msgspec
from msgspec import inspect

__all__ = ["UnknownSetting", "InvalidSetting", "NamedSettings", "MigrationPolicy", "CoordinatorSettings"]

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
MAX_PARTITIONS: Final = 10_000
"""Most partitions of a topic. Kafka has no such limit; here each partition takes memory."""

Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=MAX_INT)]
"""Kafka limits the value only by its type."""
NonNegativeInt: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
RegexRefreshInterval: TypeAlias = Annotated[int, msgspec.Meta(ge=10_000, le=MAX_INT)]
PositiveInt: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT)]
PositiveLong: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_LONG)]
Partitions: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_PARTITIONS)]


class UnknownSetting(ValueError):
    """No setting has this name; the message suggests the nearest one."""


class InvalidSetting(ValueError):
    """The value does not fit the setting; the message says what does."""


class NamedSettings(msgspec.Struct, frozen=True, kw_only=True, rename=lambda field: field.replace("_", ".")):
    """Settings with Kafka's names; a field has the same name with `_` in place of `.`.

    The type of a field gives its limits. Every way to construct settings raises InvalidSetting beyond them.
    """

    def __post_init__(self) -> None:
        for name, field in fields_of(type(self)).items():
            if isinstance(field.type, inspect.IntType):
                check_limits(name, getattr(self, field.name), field.type.ge, field.type.le)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The Kafka name of every setting."""
        return tuple(fields_of(cls))

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """Read settings from texts by Kafka name; raises UnknownSetting or InvalidSetting, naming the setting."""
        known = fields_of(cls)
        for name in texts:
            if name not in known:
                raise UnknownSetting(unknown_setting_message(name, known))
        return cls(**{known[name].name: parse_value(name, text, known[name].type) for name, text in texts.items()})

    def by_name(self) -> dict[str, int | str]:
        """The value of every setting, by Kafka name."""
        return {name: getattr(self, field.name) for name, field in fields_of(type(self)).items()}


class MigrationPolicy(StrEnum):
    """How groups with members may change between the classic protocol and the consumer protocol.

    A group without members changes under every policy.
    """

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    """A classic group becomes one of the consumer protocol when a member of that protocol joins it."""
    DOWNGRADE = "downgrade"
    """A group becomes classic again when its last member of the consumer protocol is gone."""
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class CoordinatorSettings(NamedSettings, frozen=True, kw_only=True):
    """Kafka's settings of groups. Those of the consumer protocol begin with `group.consumer`.

    CoordinatorSettings.from_texts({"group.initial.rebalance.delay.ms": "0"})
    """

    group_min_session_timeout_ms: Int = 6_000
    """The shortest session timeout that JoinGroup may request, inclusive."""
    group_max_session_timeout_ms: Int = 1_800_000
    """The longest session timeout that JoinGroup may request, inclusive."""
    group_initial_rebalance_delay_ms: Int = 3_000
    """How long the first rebalance of an Empty group waits for more members (KIP-134)."""
    group_max_size: PositiveInt = MAX_INT
    """The most members of one group (KIP-389)."""
    group_consumer_session_timeout_ms: PositiveInt = 45_000
    """How long the coordinator waits for the next heartbeat of a member of the consumer protocol."""
    group_consumer_min_session_timeout_ms: PositiveInt = 45_000
    group_consumer_max_session_timeout_ms: PositiveInt = 60_000
    group_consumer_heartbeat_interval_ms: PositiveInt = 5_000
    """How often a member of the consumer protocol is to send a heartbeat; shorter than its session timeout."""
    group_consumer_min_heartbeat_interval_ms: PositiveInt = 5_000
    group_consumer_max_heartbeat_interval_ms: PositiveInt = 15_000
    group_consumer_assignment_interval_ms: NonNegativeInt = 1_000
    """The least time between two targets of a group (KIP-1263)."""
    group_consumer_min_assignment_interval_ms: NonNegativeInt = 0
    group_consumer_max_assignment_interval_ms: NonNegativeInt = 15_000
    group_consumer_max_size: PositiveInt = MAX_INT
    """The most members of one group of the consumer protocol."""
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """How groups with members change between the protocols: bidirectional, upgrade, downgrade or disabled."""
    group_consumer_regex_refresh_interval_ms: RegexRefreshInterval = 600_000
    """How often the patterns of a group are resolved again, even if no topic was created."""
    offset_metadata_max_bytes: Int = 4_096
    """The longest metadata of a committed offset, counted in UTF-16 units in spite of the name."""
    offsets_retention_minutes: PositiveInt = 10_080
    """How long offsets are kept after their group became Empty; in a simple group after their commit (KIP-211)."""
    offsets_retention_check_interval_ms: PositiveLong = 600_000
    """Interval of the check for expired offsets and groups."""
    offsets_topic_num_partitions: Partitions = 50
    """Partitions of `__consumer_offsets`: the hash of a group's id selects one, whose leader coordinates the group."""
    offsets_commit_timeout_ms: PositiveInt = 5_000
    """How long a record of the emulated Kafka log may wait to be committed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms"):
            check_limits(
                f"group.consumer.{name.replace('_', '.')}",
                getattr(self, f"group_consumer_{name}"),
                getattr(self, f"group_consumer_min_{name}"),
                getattr(self, f"group_consumer_max_{name}"),
            )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise InvalidSetting(
                f"group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms "
                f"({self.group_consumer_session_timeout_ms}), not {self.group_consumer_heartbeat_interval_ms}"
            )


MAX_COMPARED_LENGTH = 100
"""Characters of an unknown name that are compared with those of settings, which are shorter."""


@cache
def fields_of(settings_type: type[NamedSettings]) -> Mapping[str, inspect.Field]:
    """The fields of a class of settings, with their types, by Kafka name."""
    struct = inspect.type_info(settings_type)
    assert isinstance(struct, inspect.StructType), "settings are a struct"
    return {field.encode_name: field for field in struct.fields}


def unknown_setting_message(name: str, known: Collection[str]) -> str:
    nearest = get_close_matches(name[:MAX_COMPARED_LENGTH], known, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(sorted(known))}"
    return f"unknown setting {name}: {hint}"


def parse_value(name: str, text: str, field_type: inspect.Type) -> int | bool | StrEnum:
    """The value that `text` gives a setting of this type: a number, a Boolean or a word. Raises InvalidSetting, with
    the setting's `name`; its limits are not checked here."""
    if isinstance(field_type, inspect.EnumType):
        return parse_word(name, text, field_type.cls)
    return parse_boolean(name, text) if isinstance(field_type, inspect.BoolType) else parse_integer(name, text)


def parse_word(name: str, text: str, words: type[Enum]) -> StrEnum:
    """The member of `words` with this text as its value, in upper or lower case; raises InvalidSetting."""
    known = {str(each): each for each in words if isinstance(each, StrEnum)}
    found = known.get(text.strip().lower())
    if found is None:
        raise InvalidSetting(f"{name} is one of {', '.join(known)}, not {text!r}")
    return found


def parse_boolean(name: str, text: str) -> bool:
    """Parse `true` or `false`, in upper or lower case; raises InvalidSetting."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidSetting(f"{name} is either true or false, not {text!r}")
    return word == "true"


def parse_integer(name: str, text: str) -> int:
    """Parse a whole number of any size; raises InvalidSetting."""
    try:
        return int(text)
    except ValueError:
        raise InvalidSetting(f"{name} takes a whole number, not {text!r}") from None


def check_limits(name: str, value: int, minimum: int | None, maximum: int | None) -> None:
    """Raise InvalidSetting unless the value is within the limits, both inclusive."""
    if minimum is not None and value < minimum:
        raise InvalidSetting(f"{name} must be at least {minimum}, not {value}")
    if maximum is not None and value > maximum:
        raise InvalidSetting(f"{name} must be at most {maximum}, not {value}")
