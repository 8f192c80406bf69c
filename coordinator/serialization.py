"""Events, causes and snapshots as the store keeps them: a stable type name, a version, and JSON.

A type name is never a Python path, so code can move. Unknown fields are refused: a store that was written by a later
version must not be folded to another group. To change the shape of an event, raise EVENT_VERSION and let
`decode_event` read the older payload too.
"""

from typing import Any, Final

import msgspec

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.group import Group
from regroup.coordinator.layered_mapping import as_builtin
from regroup.storage.errors import StoreDamaged, StoreError
from regroup.storage.records import NewRecord, Record, Snapshot

__all__ = ["UnknownEvent", "Cause", "decode_event", "decode_cause", "decode_snapshot", "group_as_json"]

EVENT_TYPES: Final[dict[str, type[e.Event]]] = {
    "group-created": e.GroupCreated,
    "pending-member-added": e.PendingMemberAdded,
    "pending-member-removed": e.PendingMemberRemoved,
    "member-joined": e.MemberJoined,
    "member-rejoined": e.MemberRejoined,
    "static-member-replaced": e.StaticMemberReplaced,
    "leader-elected": e.LeaderElected,
    "rebalance-started": e.RebalanceStarted,
    "join-phase-extended": e.JoinPhaseExtended,
    "generation-started": e.GenerationStarted,
    "generation-raised": e.GenerationRaised,
    "group-emptied": e.GroupEmptied,
    "member-synced": e.MemberSynced,
    "assignment-written": e.AssignmentWritten,
    "assignment-committed": e.AssignmentCommitted,
    "member-left": e.MemberLeft,
    "member-removed": e.MemberRemoved,
    "group-metadata-written": e.GroupMetadataWritten,
    "offsets-committed": e.OffsetsCommitted,
    "offsets-written": e.OffsetsWritten,
    "append-committed": e.AppendCommitted,
    "append-failed": e.AppendFailed,
    "append-timed-out": e.AppendTimedOut,
    "transactional-offsets-written": e.TransactionalOffsetsWritten,
    "transaction-ended": e.TransactionEnded,
    "offsets-deleted": e.OffsetsDeleted,
    "group-deleted": e.GroupDeleted,
    "coordinator-loaded": e.CoordinatorLoaded,
    "consumer-group-created": ce.ConsumerGroupCreated,
    "consumer-group-ended": ce.ConsumerGroupEnded,
    "member-subscribed": ce.MemberSubscribed,
    "group-epoch-bumped": ce.GroupEpochBumped,
    "target-assigned": ce.TargetAssigned,
    "member-reconciled": ce.MemberReconciled,
    "static-member-away": ce.StaticMemberAway,
    "static-consumer-replaced": ce.StaticConsumerReplaced,
    "regexes-resolved": ce.RegexesResolved,
    "group-upgraded": me.GroupUpgraded,
    "upgrade-refused": me.UpgradeRefused,
    "group-downgraded": me.GroupDowngraded,
    "classic-member-joined": me.ClassicMemberJoined,
    "classic-member-synced": me.ClassicMemberSynced,
    "rejoin-requested": me.RejoinRequested,
}
EVENT_VERSION: Final = 2
"""Version of every event payload."""
SNAPSHOT_VERSION: Final = 2
"""Version of `Group` as JSON. A snapshot of another version is ignored, and the group's history is folded instead."""

UNREADABLE_ERRORS: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What decoding and folding raise for records that were changed after they were written."""

EVENT_TYPE_NAMES: Final = {event_type: name for name, event_type in EVENT_TYPES.items()}
EVENT_DECODERS: Final = {name: msgspec.json.Decoder(event_type) for name, event_type in EVENT_TYPES.items()}
ENCODER: Final = msgspec.json.Encoder(enc_hook=as_builtin)
GROUP_DECODER: Final = msgspec.json.Decoder(Group)


class UnknownEvent(StoreError):
    """The store holds an event of a type or version that this regroup does not know."""


class Cause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """What led to an event: a request, a deadline, or the broker itself."""

    api: str = ""
    """Kafka's name of the request, `JoinGroup`; empty if there was no request."""
    connection: str = ""
    correlation_id: int | None = None
    client_id: str = ""
    deadline: str = ""
    """The kind of deadline that passed, `session`; empty if none did."""
    member_id: str = ""
    last_seen_ms: int | None = None
    """When the member's timeout started, in epoch milliseconds."""
    internal: str = ""
    """What the broker did without a request or a deadline, `serve --topic`; empty otherwise."""
    test: str = ""
    """The act of a test, `expire`; empty otherwise."""
    beyond_kafka: bool = False
    """The act of the test is none that Apache Kafka, its clients or its administrators could do."""


CAUSE_DECODER: Final = msgspec.json.Decoder(Cause)


def encode_event(
    group_id: str, event_number: int, coordinator_epoch: int, event: e.Event, cause: bytes | None
) -> NewRecord:
    """The record in which the store keeps an event, the `event_number`-th of its group; `cause` is its encoded cause,
    None if that is unknown."""
    type_name = EVENT_TYPE_NAMES[type(event)]
    payload = ENCODER.encode(event)
    return NewRecord(group_id, event_number, coordinator_epoch, event.at_ms, type_name, EVENT_VERSION, payload, cause)


def encode_cause(cause: Cause) -> bytes:
    return ENCODER.encode(cause)


def decode_event(record: Record) -> e.Event:
    """The event that a record holds; raises UnknownEvent, StoreDamaged."""
    decoder = EVENT_DECODERS.get(record.type)
    if decoder is None or record.version != EVENT_VERSION:
        raise UnknownEvent(
            f"Record {record.position} holds {record.type}/{record.version}, which this version of regroup does not "
            "know. Read this store with the version that wrote it, or a newer one."
        )
    try:
        return decoder.decode(record.payload)
    except UNREADABLE_ERRORS as error:
        raise damaged(f"Record {record.position}", error) from error


def decode_cause(record: Record) -> Cause | None:
    """What led to a record's event, None if it is unknown; raises StoreDamaged."""
    if record.cause is None:
        return None
    try:
        return CAUSE_DECODER.decode(record.cause)
    except UNREADABLE_ERRORS as error:
        raise damaged(f"The cause of record {record.position}", error) from error


def encode_snapshot(group: Group, position: int, coordinator_epoch: int) -> Snapshot:
    """The group's state at a position, so that a load need not fold its history."""
    payload = ENCODER.encode(group)
    return Snapshot(group.group_id, group.event_number, position, coordinator_epoch, SNAPSHOT_VERSION, payload)


def decode_snapshot(snapshot: Snapshot) -> Group:
    """The group that a snapshot holds; raises StoreDamaged."""
    try:
        if not isinstance(snapshot.group, str):
            raise TypeError(f"invalid group id: {snapshot.group!r}")
        return GROUP_DECODER.decode(snapshot.payload)
    except UNREADABLE_ERRORS as error:
        raise damaged(f"The snapshot of {snapshot.group!r} at position {snapshot.position}", error) from error


def damaged(what: str, error: Exception) -> StoreDamaged:
    """The error for stored bytes that cannot be decoded, or do not fit the events before them."""
    return StoreDamaged(f"{what} is damaged ({error}). Restore the store from a copy.")


def group_as_json(group: Group) -> dict[str, Any]:
    """A group as plain JSON values, for the command line and other programs."""
    shown: dict[str, Any] = msgspec.to_builtins(group, str_keys=True, enc_hook=as_builtin)
    return shown
