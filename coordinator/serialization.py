"""Events as the store keeps them: a stable name, a version, JSON. Never a Python path, so that code may move.

An event's shape may change: give it the next version here, and teach `read` to bring the older payload up to date.
"""

from typing import Any, Final

import msgspec

from regroup.coordinator import events as e
from regroup.coordinator.group import Group
from regroup.storage.errors import StoreError, StoreIsDamaged
from regroup.storage.records import NewRecord, Record, Snapshot

NAMES: Final[dict[str, type[e.Event]]] = {
    "group-created": e.GroupCreated,
    "member-id-given": e.MemberIdGiven,
    "member-id-forgotten": e.MemberIdForgotten,
    "member-joined": e.MemberJoined,
    "member-rejoined": e.MemberRejoined,
    "static-member-replaced": e.StaticMemberReplaced,
    "leader-elected": e.LeaderElected,
    "rebalance-started": e.RebalanceStarted,
    "join-phase-prolonged": e.JoinPhaseProlonged,
    "generation-started": e.GenerationStarted,
    "group-emptied": e.GroupEmptied,
    "member-synced": e.MemberSynced,
    "assignment-written": e.AssignmentWritten,
    "assignment-committed": e.AssignmentCommitted,
    "member-left": e.MemberLeft,
    "member-expelled": e.MemberExpelled,
    "group-stored": e.GroupStored,
    "offsets-committed": e.OffsetsCommitted,
    "offsets-written": e.OffsetsWritten,
    "append-committed": e.AppendCommitted,
    "append-refused": e.AppendRefused,
    "append-late": e.AppendLate,
    "transactional-offsets-written": e.TransactionalOffsetsWritten,
    "transaction-ended": e.TransactionEnded,
    "offsets-forgotten": e.OffsetsForgotten,
    "group-deleted": e.GroupDeleted,
    "coordinator-loaded": e.CoordinatorLoaded,
}
VERSION: Final = 1
"""Of every payload so far."""
SNAPSHOT_VERSION: Final = 1
"""Of `Group` as JSON; a snapshot of another version is ignored, and the history is folded instead."""

ILLEGIBLE: Final = (LookupError, TypeError, ValueError, AttributeError)
"""What goes wrong with records that somebody else has changed; nothing of ours raises these."""

NAME_OF: Final = {kind: name for name, kind in NAMES.items()}
DECODERS: Final = {name: msgspec.json.Decoder(kind) for name, kind in NAMES.items()}
ENCODER: Final = msgspec.json.Encoder()
GROUP_DECODER: Final = msgspec.json.Decoder(Group)


class UnknownEvent(StoreError):
    """The store holds an event of a kind or version that this regroup does not know: a newer one wrote it."""


class Cause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What led to an event: a request as it came in, or a deadline that passed."""

    api: str = ""
    """Kafka's name of the request, `JoinGroup`; empty if it was no request."""
    connection: str = ""
    correlation_id: int | None = None
    client_id: str = ""
    deadline: str = ""
    """Whose patience ran out, `session`; empty if it was a request."""
    member: str = ""
    since_ms: int | None = None
    """When the member was last heard."""
    occasion: str = ""
    """What the broker did unasked, `load` or `serve --topic`; empty if it was a request or a deadline."""


CAUSE_DECODER: Final = msgspec.json.Decoder(Cause)


def written(group: str, number: int, reign: int, event: e.Event, cause: bytes | None) -> NewRecord:
    """The record of an event, the `number`-th of its group."""
    return NewRecord(group, number, reign, event.at_ms, NAME_OF[type(event)], VERSION, ENCODER.encode(event), cause)


def written_cause(cause: Cause) -> bytes:
    return ENCODER.encode(cause)


def read(record: Record) -> e.Event:
    """The event that a record holds; raises UnknownEvent, StoreIsDamaged."""
    decoder = DECODERS.get(record.type)
    if decoder is None or record.version != VERSION:
        raise UnknownEvent(
            f"Record {record.position} holds {record.type}/{record.version}, which this version of regroup does not "
            "know. Read this store with the version that wrote it, or a newer one."
        )
    try:
        return decoder.decode(record.payload)
    except ILLEGIBLE as error:
        raise damaged(f"Record {record.position}", error) from error


def read_cause(record: Record) -> Cause | None:
    """What led to a record's event, if anybody knew; raises StoreIsDamaged."""
    if record.cause is None:
        return None
    try:
        return CAUSE_DECODER.decode(record.cause)
    except ILLEGIBLE as error:
        raise damaged(f"The cause of record {record.position}", error) from error


def snapshot(group: Group, position: int, reign: int) -> Snapshot:
    """A group's state, to begin a later fold from."""
    return Snapshot(group.name, group.number, position, reign, SNAPSHOT_VERSION, ENCODER.encode(group))


def read_snapshot(stored: Snapshot) -> Group:
    """The group that a snapshot holds; raises StoreIsDamaged."""
    try:
        if not isinstance(stored.group, str):
            raise TypeError("its group's name is no text")
        return GROUP_DECODER.decode(stored.payload)
    except ILLEGIBLE as error:
        raise damaged(f"The snapshot of {stored.group!r} at position {stored.position}", error) from error


def damaged(what: str, error: Exception) -> StoreIsDamaged:
    """What cannot be read, or does not fit what came before it, was changed after it was written."""
    return StoreIsDamaged(f"{what} is damaged ({error}). Restore the store from a copy.")


def as_json(group: Group) -> dict[str, Any]:
    """A group as plain JSON values, for people and other programs."""
    shown = msgspec.to_builtins(group, str_keys=True)
    return shown if isinstance(shown, dict) else {}
