"""The settings of a topic: names, types, defaults and valid values. All are stored and shown; only `max.message.bytes`
and `retention.bytes` have an effect.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from regroup.coordinator.settings import (
    MAX_INT,
    MAX_LONG,
    InvalidSetting,
    UnknownSetting,
    check_limits,
    parse_boolean,
    parse_integer,
    unknown_setting_message,
)
from regroup.server.settings import BOOL, INT, LONG, BrokerSettings, DescribedSetting, format_setting

STRING, DOUBLE, LIST = 2, 6, 7


class TopicConfig(NamedTuple):
    """One setting of topics: Kafka's number of its type, its default, and its valid values."""

    type_id: int
    default: str
    minimum: int = 0
    allowed_values: tuple[str, ...] = ()
    broker_setting: str | None = None
    """The field of BrokerSettings that holds the default for all topics; None if there is no such setting."""


TOPIC_CONFIGS: dict[str, TopicConfig] = {
    "cleanup.policy": TopicConfig(LIST, "delete", allowed_values=("delete", "compact")),
    "compression.type": TopicConfig(
        STRING, "producer", allowed_values=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
    ),
    "delete.retention.ms": TopicConfig(LONG, "86400000"),
    "file.delete.delay.ms": TopicConfig(LONG, "60000"),
    "flush.messages": TopicConfig(LONG, str(MAX_LONG), 1),
    "flush.ms": TopicConfig(LONG, str(MAX_LONG)),
    "index.interval.bytes": TopicConfig(INT, "4096"),
    "max.compaction.lag.ms": TopicConfig(LONG, str(MAX_LONG), 1),
    "max.message.bytes": TopicConfig(INT, "1048588", broker_setting="message_max_bytes"),  # a larger batch is refused
    "message.timestamp.after.max.ms": TopicConfig(LONG, "3600000"),
    "message.timestamp.before.max.ms": TopicConfig(LONG, str(MAX_LONG)),
    "message.timestamp.type": TopicConfig(STRING, "CreateTime", allowed_values=("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": TopicConfig(DOUBLE, "0.5"),
    "min.compaction.lag.ms": TopicConfig(LONG, "0"),
    "min.insync.replicas": TopicConfig(INT, "1", 1),
    "preallocate": TopicConfig(BOOL, "false"),
    "retention.bytes": TopicConfig(LONG, "67108864", -1, broker_setting="log_retention_bytes"),  # per partition
    "retention.ms": TopicConfig(LONG, "604800000", -1),
    "segment.bytes": TopicConfig(INT, "1073741824", 14),
    "segment.index.bytes": TopicConfig(INT, "10485760", 4),
    "segment.jitter.ms": TopicConfig(LONG, "0"),
    "segment.ms": TopicConfig(LONG, "604800000", 1),
    "unclean.leader.election.enable": TopicConfig(BOOL, "false"),
}


def check_topic_config(name: str, text: str) -> None:
    """Check the name and value of one setting of a topic. Raises UnknownSetting or InvalidSetting, naming the
    setting."""
    row = TOPIC_CONFIGS.get(name)
    if row is None:
        raise UnknownSetting(unknown_setting_message(name, TOPIC_CONFIGS))
    if row.type_id in (INT, LONG):
        check_limits(name, parse_integer(name, text), row.minimum, MAX_INT if row.type_id == INT else MAX_LONG)
    elif row.type_id == BOOL:
        parse_boolean(name, text)
    elif row.type_id == DOUBLE:
        if not _is_ratio(text):
            raise InvalidSetting(f"{name} must be a number between 0 and 1, not {text!r}")
    elif not set(text.split(",") if row.type_id == LIST else [text]) <= set(row.allowed_values):
        raise InvalidSetting(f"{name} must be one of {', '.join(row.allowed_values)}, not {text!r}")


def _is_ratio(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def effective_topic_config(configs: Mapping[str, str], name: str, settings: BrokerSettings) -> str:
    """The value of a setting that applies to a topic: its own, or else the broker's, or else the default."""
    row = TOPIC_CONFIGS[name]
    default = format_setting(getattr(settings, row.broker_setting)) if row.broker_setting else row.default
    return configs.get(name) or default


def describe_topic_configs(configs: Mapping[str, str], settings: BrokerSettings) -> Iterator[DescribedSetting]:
    """All settings of a topic, as DescribeConfigs shows them. `configs` are the topic's own settings."""
    for name, row in TOPIC_CONFIGS.items():
        yield DescribedSetting(name, effective_topic_config(configs, name, settings), row.default, row.type_id)
