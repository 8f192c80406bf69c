"""The settings of a group, as DescribeConfigs shows them.

They are settings of consumer groups of KIP-848, share groups and streams groups, none of which is served: every group,
whether it exists or not, has the defaults of the newest Apache Kafka, and nothing can be changed.
"""

from typing import NamedTuple

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
