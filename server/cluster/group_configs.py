"""The settings of a group (resource type GROUP), with the names and the defaults of the newest Apache Kafka.

Any group name has them, whether there is such a group or not, and they stay when the group is deleted. Those that
begin with `consumer.` replace settings of the broker for one group of the consumer protocol. The others are about share
groups and streams groups, which are not served: they are stored and shown.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from regroup.coordinator.settings import CoordinatorSettings, InvalidSetting, parse_boolean, parse_integer
from regroup.server.cluster.topic_configs import LIST, STRING
from regroup.server.settings import BOOL, INT


class GroupConfig(NamedTuple):
    """A setting: Kafka's number of its type, its default, and the broker's setting that the default comes from."""

    type_id: int
    default: str
    broker_setting: str


GROUP_CONFIGS: dict[str, GroupConfig] = {
    "consumer.session.timeout.ms": GroupConfig(INT, "45000", "group.consumer.session.timeout.ms"),
    "streams.assignor.name": GroupConfig(STRING, "sticky", "group.streams.assignors"),
    "consumer.assignment.interval.ms": GroupConfig(INT, "1000", "group.consumer.assignment.interval.ms"),
    "errors.deadletterqueue.copy.record.enable": GroupConfig(
        BOOL, "false", "errors.deadletterqueue.copy.record.enable"
    ),
    "share.auto.offset.reset": GroupConfig(STRING, "latest", "share.auto.offset.reset"),
    "streams.rack.aware.assignment.tags": GroupConfig(LIST, "", "group.streams.rack.aware.assignment.tags"),
    "share.renew.acknowledge.enable": GroupConfig(BOOL, "true", "share.renew.acknowledge.enable"),
    "streams.initial.rebalance.delay.ms": GroupConfig(INT, "3000", "group.streams.initial.rebalance.delay.ms"),
    "share.session.timeout.ms": GroupConfig(INT, "45000", "group.share.session.timeout.ms"),
    "streams.assignment.interval.ms": GroupConfig(INT, "1000", "group.streams.assignment.interval.ms"),
    "share.heartbeat.interval.ms": GroupConfig(INT, "5000", "group.share.heartbeat.interval.ms"),
    "streams.heartbeat.interval.ms": GroupConfig(INT, "5000", "group.streams.heartbeat.interval.ms"),
    "share.delivery.count.limit": GroupConfig(INT, "5", "group.share.delivery.count.limit"),
    "errors.deadletterqueue.topic.name": GroupConfig(STRING, "", "errors.deadletterqueue.topic.name"),
    "consumer.heartbeat.interval.ms": GroupConfig(INT, "5000", "group.consumer.heartbeat.interval.ms"),
    "share.record.lock.duration.ms": GroupConfig(INT, "30000", "group.share.record.lock.duration.ms"),
    "share.assignment.interval.ms": GroupConfig(INT, "1000", "group.share.assignment.interval.ms"),
    "share.isolation.level": GroupConfig(STRING, "read_uncommitted", "share.isolation.level"),
    "streams.session.timeout.ms": GroupConfig(INT, "45000", "group.streams.session.timeout.ms"),
    "share.partition.max.record.locks": GroupConfig(INT, "2000", "group.share.partition.max.record.locks"),
    "streams.num.standby.replicas": GroupConfig(INT, "0", "group.streams.num.standby.replicas"),
}
"""In the order of Kafka's response."""

_PREFIX: Final = "consumer."


def effective_group_settings(settings: CoordinatorSettings, configs: Mapping[str, str]) -> CoordinatorSettings:
    """The coordinator's settings as they apply to one group: `configs`, the settings that the group has of its own,
    replace those of the broker in `settings`."""
    return _effective(settings, frozenset(configs.items()))


@lru_cache(maxsize=1024)
def _effective(settings: CoordinatorSettings, configs: frozenset[tuple[str, str]]) -> CoordinatorSettings:
    """The result of `effective_group_settings`, cached. A group's value outside the broker's present bounds is replaced
    by the nearest bound. If the group's values contradict the other settings, as a heartbeat interval that is longer
    than the session timeout, the broker's settings are returned unchanged."""
    own = {}
    for name, text in configs:
        if name.startswith(_PREFIX):
            minimum, maximum = bounds_of(settings, name)
            own[field_of(name)] = min(max(int(text), minimum), maximum)
    try:
        return replace(settings, **own)
    except InvalidSetting:
        return settings


def check_group_configs(settings: CoordinatorSettings, configs: Mapping[str, str]) -> None:
    """Check `configs`, all settings that a group is to have of its own. Raises InvalidSetting for an invalid one, with
    Kafka's message where Kafka has one."""
    for name, text in configs.items():
        row = GROUP_CONFIGS.get(name)
        if row is None:
            raise InvalidSetting(f"Unknown group config name: {name}")
        if row.type_id == BOOL:
            parse_boolean(name, text)
        elif row.type_id == INT:
            check_number(settings, name, parse_integer(name, text))
    check_heartbeat_interval(settings, configs)


def check_number(settings: CoordinatorSettings, name: str, value: int) -> None:
    """Check a number that a group's setting is to have. A setting of consumer groups must lie within bounds that are
    settings of the broker; any other must not be negative. Raises InvalidSetting."""
    if name.startswith(_PREFIX):
        minimum, maximum = bounds_of(settings, name)
        if not minimum <= value <= maximum:
            raise InvalidSetting(f"{name} must be in the range {minimum} to {maximum} inclusive.")
    elif value < 0:
        raise InvalidSetting(f"{name} must be at least 0, not {value}")


def check_heartbeat_interval(settings: CoordinatorSettings, configs: Mapping[str, str]) -> None:
    """Raise InvalidSetting unless the group's heartbeat interval is shorter than its session timeout. If the group has
    no value of its own for one of the two, the broker's value is compared."""
    interval_ms = int(configs.get("consumer.heartbeat.interval.ms", settings.group_consumer_heartbeat_interval_ms))
    timeout_ms = int(configs.get("consumer.session.timeout.ms", settings.group_consumer_session_timeout_ms))
    if interval_ms >= timeout_ms:
        raise InvalidSetting(
            f"consumer.session.timeout.ms ({timeout_ms}) must be greater than consumer.heartbeat.interval.ms "
            f"({interval_ms})."
        )


def bounds_of(settings: CoordinatorSettings, name: str) -> tuple[int, int]:
    """The least and the largest value that the broker's settings allow for this setting of consumer groups."""
    rest = field_of(name).removeprefix("group_consumer_")
    minimum: int = getattr(settings, f"group_consumer_min_{rest}")
    maximum: int = getattr(settings, f"group_consumer_max_{rest}")
    return minimum, maximum


def field_of(name: str) -> str:
    """The name of the field of CoordinatorSettings that this setting of consumer groups replaces."""
    return f"group_{name.replace('.', '_')}"
