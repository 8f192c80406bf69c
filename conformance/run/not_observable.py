"""Behaviours of the catalogue that no client can observe, and why."""

from typing import Final

LOADING = "a partition is loading only for a short time, which a client cannot choose"
DEAD = "a group is Dead only for a short time, while its partition is unloaded"
FAILED_APPEND = "the broker's log would have to refuse a record"
UNCOMMITTED = "a record is written but not committed only for a short time, which a client cannot choose"
OLD_LOG = "the log would have to hold a record of an older Kafka version, or of an unknown type"

NOT_OBSERVABLE: Final[dict[str, str]] = {
    "validation.coordinator-not-running": "the coordinator would have to be down while the broker is up",
    "validation.find-coordinator.offsets-topic-missing": "only the first FindCoordinator of a new cluster shows it",
    "validation.instance-id-version-gate": "the client refuses the request before it is sent",
    "join.member-id-required.response-before-commit": UNCOMMITTED,
    "join.new-group.create-append-failure": FAILED_APPEND,
    "join.dead-group.new-member": DEAD,
    "join.dead-group.known-member": DEAD,
    "join.share-group": "the stories cover no share groups",
    "sync.dead-group": DEAD,
    "sync.append-failure": FAILED_APPEND,
    "sync.null-group-protocol": OLD_LOG,
    "heartbeat.dead-group": DEAD,
    "heartbeat.loading": LOADING,
    "static.replace.persist-failure": FAILED_APPEND,
    "limits.over-capacity-after-load": "the broker would have to restart with a smaller group.max.size",
    "describe.uncommitted-group-is-dead": UNCOMMITTED,
    "list.uncommitted-group-hidden": UNCOMMITTED,
    "offset-commit.dead-group": DEAD,
    "offset-commit.append-errors": FAILED_APPEND,
    "offset-commit.expiry.old-metadata-without-state-timestamp": OLD_LOG,
    "offset-fetch.dead-group": DEAD,
    "offset-fetch.committed-view": UNCOMMITTED,
    "offset-fetch.require-stable.write-timeout": FAILED_APPEND,
    "offset-fetch.v1-group-error-lost": LOADING,
    "txn-offset.loading-mapped-for-old-clients": LOADING,
    "recovery.rebalance-timeout-minus-one": OLD_LOG,
    "recovery.unknown-record-type": OLD_LOG,
    "recovery.loading-answers": LOADING,
    "recovery.write-timeout": FAILED_APPEND,
}
