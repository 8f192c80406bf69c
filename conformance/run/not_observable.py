"""Behaviours of the catalogue that no client can observe, and why."""

from typing import Final

LOADING = "a partition is loading only for a short time, which a client cannot choose"
DEAD = "a group is Dead only for a short time, while its partition is unloaded"
FAILED_APPEND = "the broker's log would have to refuse a record"
UNCOMMITTED = "a record is written but not committed only for a short time, which a client cannot choose"
OLD_LOG = "the log would have to hold a record of an older Kafka version, or of an unknown type"
RECORDS = "the answers do not show the records of the log"
ASSIGNOR_INPUT = "the answers do not show what an assignor is given"
NO_AUTHORIZER = "the stories run without an authorizer"
INSIDE = "no answer depends on it"

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
    "cg.val.not-authorized-for-group": NO_AUTHORIZER,
    "cg.val.not-authorized-for-a-topic": NO_AUTHORIZER,
    "cg.val.coordinator-not-running": "the coordinator would have to be down while the broker is up",
    "cg.val.loading": LOADING,
    "cg.join.share-or-streams-group": "the stories cover no share groups and no streams groups",
    "cg.int.edge-is-inclusive": "no client can send a heartbeat in a given millisecond",
    "cg.int.clock-is-stored": "a restart takes about as long as the longest assignment interval",
    "cg.asr.input": ASSIGNOR_INPUT,
    "cg.asr.racks-unused": ASSIGNOR_INPUT,
    "cg.asr.subscription-type-with-regex": ASSIGNOR_INPUT,
    "cg.asr.failure": "the assignors of a broker do not fail",
    "cg.asr.new-member-with-nothing-is-written": RECORDS,
    "cg.rec.member-state-unknown": OLD_LOG,
    "cg.state.is-derived": RECORDS,
    "cg.regex.checked-only-when-new": INSIDE,
    "cg.regex.refresh-runs-once": INSIDE,
    "cg.regex.refreshed-every-ten-minutes": INSIDE,
    "cg.regex.authorization": NO_AUTHORIZER,
    "cg.topic.no-difference": "no request marks a group whose topics are unchanged",
    "cg.topic.refresh-repeated-after-failed-write": FAILED_APPEND,
    "cg.topic.hash-input": INSIDE,
    "cg.topic.old-record-is-removed": OLD_LOG,
    "cg.desc.committed-only": UNCOMMITTED,
    "cg.log.first-join": RECORDS,
    "cg.log.told-to-revoke": RECORDS,
    "cg.log.acknowledged": RECORDS,
    "cg.log.leave": RECORDS,
    "cg.log.last-leave": RECORDS,
    "cg.log.static-away": RECORDS,
    "cg.log.static-back": RECORDS,
    "cg.log.regex": RECORDS,
    "cg.log.downgrade": RECORDS,
    "cg.fail.unloading-answers-nobody": "the coordinator would have to move to another broker",
    "cg.fail.member-half-gone": "the records of one request are one batch",
    "cg.cfg.clamped-at-start": "the broker would have to restart with other settings",
    "cg.cfg.assignment-interval-is-dynamic": "it would change the settings under all other stories",
    "cg.cm.write-fails": FAILED_APPEND,
}
