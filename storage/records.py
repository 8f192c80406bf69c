"""What goes into the store and what comes back. The store never looks inside a payload."""

import msgspec


class NewRecord(msgspec.Struct, frozen=True):
    """A fact that is not stored yet."""

    group: str | None
    """The group it is about; None for what concerns the whole cluster, such as a topic."""
    number: int
    """1, 2, 3 … within the group, without a gap."""
    reign: int
    """Whose rule wrote it: each coordinator that takes over gets a larger reign from `EventStore.next_reign`."""
    at_ms: int
    """Epoch milliseconds."""
    type: str
    """A stable name such as `member-joined`, never a Python path."""
    version: int
    """Of the payload's shape."""
    payload: bytes
    """JSON text in UTF-8."""
    cause: bytes | None
    """JSON text in UTF-8: the request or the deadline that led to this fact."""


class Record(NewRecord, frozen=True):
    """A stored fact."""

    position: int
    """1, 2, 3 … over the whole store, without a gap, in the order of commits."""


class Head(msgspec.Struct, frozen=True):
    """Where a group's history ends: number, reign and position of its last record."""

    number: int
    reign: int
    position: int


class Snapshot(msgspec.Struct, frozen=True):
    """A group's state after its record `number`, so that a load need not read its whole history."""

    group: str | None
    number: int
    position: int
    """Of the group's last record in this state; at most the cut that the snapshot is saved with."""
    reign: int
    version: int
    """Of the payload's shape."""
    payload: bytes
