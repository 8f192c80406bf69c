"""The settings that a topic may have of its own. Two of them count here; all are kept and shown."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from regroup.coordinator.settings import (
    MAX_INT,
    MAX_LONG,
    InvalidSetting,
    UnknownSetting,
    check_limits,
    parse_truth,
    parse_whole_number,
    unknown_setting,
)
from regroup.server.settings import BOOL, INT, LONG, BrokerSettings, ShownSetting, setting_text

STRING, DOUBLE, LIST = 2, 6, 7


class TopicConfig(NamedTuple):
    """One row: Kafka's number of the type, the default, and what is allowed."""

    kind: int
    default: str
    least: int = 0
    words: tuple[str, ...] = ()
    broker_setting: str | None = None
    """The setting of the broker that stands in where the topic has none."""


TOPIC_CONFIGS: dict[str, TopicConfig] = {
    "cleanup.policy": TopicConfig(LIST, "delete", words=("delete", "compact")),
    "compression.type": TopicConfig(
        STRING, "producer", words=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
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
    "message.timestamp.type": TopicConfig(STRING, "CreateTime", words=("CreateTime", "LogAppendTime")),
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
    """Raises UnknownSetting or InvalidSetting, naming the setting."""
    row = TOPIC_CONFIGS.get(name)
    if row is None:
        raise UnknownSetting(unknown_setting(name, TOPIC_CONFIGS))
    if row.kind in (INT, LONG):
        check_limits(name, parse_whole_number(name, text), row.least, MAX_INT if row.kind == INT else MAX_LONG)
    elif row.kind == BOOL:
        parse_truth(name, text)
    elif row.kind == DOUBLE:
        _check_ratio(name, text)
    elif not set(text.split(",") if row.kind == LIST else [text]) <= set(row.words):
        raise InvalidSetting(f"{name} can be {', '.join(row.words)}, not {text!r}")


def _check_ratio(name: str, text: str) -> None:
    try:
        inside = 0 <= float(text) <= 1
    except ValueError:
        inside = False
    if not inside:
        raise InvalidSetting(f"{name} must be a number between 0 and 1, not {text!r}")


def topic_config(configs: Mapping[str, str], name: str, settings: BrokerSettings) -> str:
    """What holds for a topic: its own word, or the broker's."""
    return configs.get(name) or _broker_word(TOPIC_CONFIGS[name], settings)


def _broker_word(row: TopicConfig, settings: BrokerSettings) -> str:
    return setting_text(getattr(settings, row.broker_setting)) if row.broker_setting else row.default


def shown_topic_configs(configs: Mapping[str, str], settings: BrokerSettings) -> Iterator[ShownSetting]:
    """All settings of a topic with these of its own."""
    for name, row in TOPIC_CONFIGS.items():
        yield ShownSetting(name, topic_config(configs, name, settings), row.default, row.kind)
