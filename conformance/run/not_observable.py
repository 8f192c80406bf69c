"""Behaviours of the catalogue that no exchange with one address can show, and why."""

from typing import Final

LOADING = "a partition is loading for a moment that nobody outside can choose"
DEAD = "a group is Dead for a moment only, while its partition is unloaded"
FAILED_APPEND = "the log of the broker would have to refuse a record"
UNCOMMITTED = "a record is written and not yet committed for a moment that nobody outside can choose"
OLD_LOG = "the log would have to hold a record of an older Kafka, or of an unknown kind"

UNSEEN: Final[dict[str, str]] = {
    "validation.coordinator-not-running": "the coordinator would have to be down while the broker is up",
    "validation.find-coordinator.offsets-topic-missing": "only the very first question to a fresh cluster shows it",
    "validation.instance-id-version-gate": "the client refuses before anything is on the wire",
    "join.member-id-required.response-before-commit": UNCOMMITTED,
    "join.new-group.create-append-failure": FAILED_APPEND,
    "join.dead-group.new-member": DEAD,
    "join.dead-group.known-member": DEAD,
    "join.share-group": "share groups are not spoken here",
    "sync.dead-group": DEAD,
    "sync.append-failure": FAILED_APPEND,
    "sync.null-group-protocol": OLD_LOG,
    "heartbeat.dead-group": DEAD,
    "heartbeat.loading": LOADING,
    "static.replace.persist-failure": FAILED_APPEND,
    "limits.over-capacity-after-load": "the broker would have to come back with a smaller group.max.size",
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
