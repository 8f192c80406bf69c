"""Settings of Kafka's brokers that regroup does not have, and what regroup does about their subjects."""

from typing import Final

_SHARE: Final = "there are no share groups"
_STREAMS: Final = "there are no streams groups"
_OFFLOAD: Final = "a target is computed within the heartbeat, as in Kafka 4.4, where nothing reads this setting"
_REPLICAS: Final = "every broker holds every partition"
_AGE: Final = "records do not expire by age; log.retention.bytes bounds them"
ABSENT_SETTINGS: Final = {
    "group.consumer.assignors": "the coordinator has the assignors uniform and range in this order, Kafka's default",
    "group.coordinator.rebalance.protocols": "the protocols classic and consumer are served, and with a broker "
    "version before 4.0 classic ones alone; group.consumer.migration.policy says how groups may change between them",
    "group.consumer.assignor.offload.enable": _OFFLOAD,
    "consumer.assignor.offload.enable": _OFFLOAD,
    "offsets.topic.replication.factor": _REPLICAS,
    "min.insync.replicas": _REPLICAS,
    "log.retention.hours": _AGE,
    "log.retention.minutes": _AGE,
    "log.retention.ms": _AGE,
}
"""By the name of the setting, what regroup does without it, as a clause."""
_BY_PREFIX: Final = {
    "group.share.": _SHARE,
    "share.": _SHARE,
    "group.streams.": _STREAMS,
    "streams.": _STREAMS,
    "group.coordinator.": "the coordinator has one thread, and appends its records at once",
    "transaction.state.log.": "the state of transactions is in the store",
}


def absent_setting_message(name: str) -> str:
    """What is wrong with setting this setting, which Kafka has and regroup has not, and what to do; empty for any other
    name."""
    prefixes = (clause for prefix, clause in _BY_PREFIX.items() if name.startswith(prefix))
    clause = ABSENT_SETTINGS.get(name) or next(prefixes, "")
    return f"regroup does not have Kafka's setting {name}: {clause}. Leave it out." if clause else ""
