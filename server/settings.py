"""The broker's settings by Kafka's names (`num.partitions`, `auto.create.topics.enable`, …), and settings as
DescribeConfigs shows them.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, NamedTuple, TypeAlias

from msgspec import Meta, inspect

from regroup.coordinator.settings import (
    MAX_INT,
    MAX_LONG,
    CoordinatorSettings,
    NamedSettings,
    NonNegativeInt,
    Partitions,
    PositiveInt,
    PositiveLong,
    UnknownSetting,
    fields_of,
    unknown_setting_message,
)
from regroup.server.absent_settings import absent_setting_message

__all__ = ["BrokerSettings"]

BOOL, STRING, INT, LONG = 1, 2, 3, 5
"""Kafka's numbers for the types of these settings."""
INTERNAL_SETTINGS: Final = frozenset({"group.consumer.regex.refresh.interval.ms"})
"""The settings that Kafka calls internal. They have an effect, and DescribeConfigs shows them only if they were set."""

ReplicationFactor: TypeAlias = Annotated[int, Meta(ge=1, le=32_767)]
RetentionBytes: TypeAlias = Annotated[int, Meta(ge=-1, le=MAX_LONG)]
"""The type of `log.retention.bytes`; -1 means no limit."""
FetchBytes: TypeAlias = Annotated[int, Meta(ge=1024, le=MAX_INT)]


class DescribedSetting(NamedTuple):
    """A setting as DescribeConfigs shows it. `type_id` is Kafka's number of its type: 1 boolean, 2 string, 3 int,
    5 long."""

    name: str
    text: str
    default: str
    type_id: int


class BrokerSettings(NamedSettings, frozen=True, kw_only=True):
    """The settings of the brokers. Those of the group coordinator are in CoordinatorSettings."""

    num_partitions: Partitions = 1
    """The number of partitions of a topic that is created without a number."""
    default_replication_factor: ReplicationFactor = 1
    auto_create_topics_enable: bool = True
    """Whether a Metadata request for an unknown topic creates the topic."""
    delete_topic_enable: bool = True
    message_max_bytes: NonNegativeInt = 1_048_588
    """The largest record batch, in bytes, in a topic without its own `max.message.bytes`."""
    log_retention_bytes: RetentionBytes = 64 * 1024 * 1024
    """The memory of one partition, in bytes; beyond it the oldest batches are deleted. Kafka's default is -1."""
    fetch_max_bytes: FetchBytes = 57_671_680
    """The most bytes of records in the response to a Fetch, even if the request allows more."""
    socket_request_max_bytes: PositiveInt = 104_857_600
    """The longest request, in bytes; a client that sends a longer one is disconnected."""
    connections_max_idle_ms: PositiveLong = 600_000
    """A connection without requests and responses is closed after this time, in milliseconds."""
    transaction_max_timeout_ms: PositiveInt = 900_000


def settings_from_texts(texts: Mapping[str, str]) -> tuple[CoordinatorSettings, BrokerSettings]:
    """The settings of the coordinator and of the broker, from texts by their names in Kafka.

    Raises UnknownSetting or InvalidSetting, naming the setting.
    """
    group_names, broker_names = CoordinatorSettings.names(), BrokerSettings.names()
    for name in texts:
        if name not in (*group_names, *broker_names):
            known = sorted({*group_names, *broker_names})
            raise UnknownSetting(absent_setting_message(name) or unknown_setting_message(name, known))
    return (
        CoordinatorSettings.from_texts({name: text for name, text in texts.items() if name in group_names}),
        BrokerSettings.from_texts({name: text for name, text in texts.items() if name in broker_names}),
    )


def describe_settings(settings: NamedSettings) -> Iterator[DescribedSetting]:
    """The settings in the form in which DescribeConfigs shows them: all but internal ones that have their defaults."""
    for name, field in fields_of(type(settings)).items():
        value = getattr(settings, field.name)
        if name in INTERNAL_SETTINGS and value == field.default:
            continue
        yield DescribedSetting(name, format_setting(value), format_setting(field.default), _type_id(field.type))


def _type_id(field_type: inspect.Type) -> int:
    """Kafka's number of the type of a setting, from the type of its field: for integers it depends on whether the field
    has 32 or 64 bits."""
    if isinstance(field_type, inspect.IntType):
        return LONG if (field_type.le or 0) > MAX_INT else INT
    return STRING if isinstance(field_type, inspect.EnumType) else BOOL


def format_setting(value: object) -> str:
    """The value as Kafka writes it: `true`, `false`, digits, or a word."""
    return str(value).lower() if isinstance(value, bool) else str(value)
