"""The records and snapshots of a store, which never reads their payloads.

A store converts its rows to these classes with msgspec, which checks the declared types and ranges. They are
`array_like` because a row is a tuple.
"""

import msgspec

from regroup.storage.numbers import StoredNumber, StoredTime

__all__ = ["NewRecord", "Record", "Head", "Snapshot", "NewExchangeBlock", "ExchangeBlock"]


class NewRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event that is not stored yet, as the store gets it."""

    group: str | None
    """The id of the event's group; None for an event of the cluster, such as the creation of a topic."""
    event_number: StoredNumber
    """1, 2, 3 … within the group, without a gap."""
    coordinator_epoch: StoredNumber
    """The epoch of the coordinator that wrote the event, from `EventStore.next_coordinator_epoch`."""
    at_ms: StoredTime
    """Time of the event, in milliseconds since 1970 (UTC)."""
    type: str
    """The type of the event: a stable name such as `member-joined`, never a Python path."""
    version: StoredNumber
    """The version of the payload's format."""
    payload: bytes
    """The fields of the event, as JSON text in UTF-8."""
    cause: bytes | None
    """The request or deadline that led to the event, as JSON text in UTF-8; None if it is unknown."""

    def stored_at(self, position: int) -> "Record":
        """The same record, with the position at which it was stored."""
        return Record(
            self.group,
            self.event_number,
            self.coordinator_epoch,
            self.at_ms,
            self.type,
            self.version,
            self.payload,
            self.cause,
            position,
        )


class Record(NewRecord, frozen=True, array_like=True, gc=False):
    """An event that is stored, with its position."""

    position: StoredNumber
    """1, 2, 3 … over the whole store, without a gap, in the order of commits."""


class Head(msgspec.Struct, frozen=True, gc=False):
    """The end of a group's history: event number, coordinator epoch and position of its last record."""

    event_number: StoredNumber
    coordinator_epoch: StoredNumber
    position: StoredNumber


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A group's state after its record `event_number`.

    A load reads it instead of the records up to and including that one.
    """

    group: str | None
    event_number: StoredNumber
    position: StoredNumber
    """Position of the record `event_number`. It is not greater than the cut with which the snapshot is saved."""
    coordinator_epoch: StoredNumber
    version: StoredNumber
    """The version of the payload's format."""
    payload: bytes


class NewExchangeBlock(msgspec.Struct, frozen=True, array_like=True):
    """Some hundred recorded exchanges, or observations of a simulation, that are not stored yet."""

    first_ms: StoredTime
    """The time of the first exchange or observation, in milliseconds since 1970 (UTC)."""
    last_ms: StoredTime
    """The last time at which one of the exchanges or observations changed, in milliseconds since 1970 (UTC)."""
    count: StoredNumber
    payload: bytes
    """The exchanges or observations as bytes, which the store never reads. It keeps them compressed."""


class ExchangeBlock(NewExchangeBlock, frozen=True, array_like=True):
    """A stored block of exchanges or observations."""

    number: StoredNumber
    """1, 2, 3 … in the order in which the blocks were stored. The first blocks may have been deleted."""
