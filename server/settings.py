"""The broker's settings by Kafka's own names: `num.partitions`, `auto.create.topics.enable`, …"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta, inspect

from regroup.coordinator.settings import (
    MAX_INT,
    MAX_LONG,
    NamedSettings,
    Partitions,
    PositiveInt,
    PositiveLong,
    fields_of,
    unknown_setting,
)

__all__ = ["BOOL", "INT", "LONG", "BrokerSettings", "ShownSetting", "setting_text", "shown", "unknown_setting"]

BOOL, INT, LONG = 1, 3, 5
"""Kafka's numbers of the types that a setting here can have."""

Replicas: TypeAlias = Annotated[int, Meta(ge=1, le=32_767)]
AnySize: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INT)]
SizeOrEverything: TypeAlias = Annotated[int, Meta(ge=-1, le=MAX_LONG)]
"""-1 means everything."""
FetchSize: TypeAlias = Annotated[int, Meta(ge=1024, le=MAX_INT)]


class ShownSetting(NamedTuple):
    """A setting as DescribeConfigs shows it. `kind` is Kafka's number of the type: 1 bool, 3 int, 5 long."""

    name: str
    text: str
    default: str
    kind: int


class BrokerSettings(NamedSettings, frozen=True, kw_only=True):
    """What the broker around the coordinator goes by."""

    num_partitions: Partitions = 1
    """Partitions of a topic for which nobody named a number."""
    default_replication_factor: Replicas = 1
    auto_create_topics_enable: bool = True
    """May asking for a topic's metadata make the topic?"""
    delete_topic_enable: bool = True
    message_max_bytes: AnySize = 1_048_588
    """The largest record batch a topic takes, unless its `max.message.bytes` says otherwise."""
    log_retention_bytes: SizeOrEverything = 64 * 1024 * 1024
    """What one partition keeps in memory before its oldest batches go. Kafka's default is -1."""
    fetch_max_bytes: FetchSize = 57_671_680
    """The most that one fetch is answered with, whatever it asks for."""
    socket_request_max_bytes: PositiveInt = 104_857_600
    """The longest frame; whoever announces a longer one is disconnected."""
    connections_max_idle_ms: PositiveLong = 600_000
    """A connection on which nothing moves for so long is closed."""
    transaction_max_timeout_ms: PositiveInt = 900_000


def shown(settings: NamedSettings) -> Iterator[ShownSetting]:
    """All of them, as DescribeConfigs shows them."""
    for name, field in fields_of(type(settings)).items():
        value = getattr(settings, field.name)
        yield ShownSetting(name, setting_text(value), setting_text(field.default), kind_of(field.type))


def kind_of(type_of_field: inspect.Type) -> int:
    """Kafka tells numbers by the space that they take."""
    if isinstance(type_of_field, inspect.IntType):
        return LONG if (type_of_field.le or 0) > MAX_INT else INT
    return BOOL


def setting_text(value: object) -> str:
    """A value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
