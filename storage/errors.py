"""The errors of a store. Every message says what to do.

StoreError
  ├─ NotAStore                 the file is something else, or there is none
  ├─ UnsupportedStoreVersion   written by another version of this program
  ├─ StoreDamaged              a store whose contents are broken
  ├─ StoreLocked               another process writes to it
  ├─ StoreReadOnly             opened for reading, or on a disk that cannot be written
  ├─ StoreFull                 no space left on the disk
  ├─ StoreFailed               any other failure of the disk or of SQLite
  │  └─ StoreLost              its files were deleted, replaced or shortened while it was open for writing
  ├─ CoordinatorFenced         a newer coordinator has written to this group
  ├─ EventNumberConflict       an event number that does not follow the group's last one
  ├─ PositionTrimmed           a read of records that have been trimmed
  └─ SnapshotMissing           a trim of records that no snapshot covers

After any of them but StoreLost the store holds exactly what it held before.
"""

__all__ = [
    "StoreError",
    "NotAStore",
    "UnsupportedStoreVersion",
    "StoreDamaged",
    "StoreLocked",
    "StoreReadOnly",
    "StoreFull",
    "StoreFailed",
    "CoordinatorFenced",
    "EventNumberConflict",
    "PositionTrimmed",
    "SnapshotMissing",
]


class StoreError(Exception):
    """The base of all errors of a store: its file is faulty, or it refuses a request."""


class NotAStore(StoreError):
    """Raised for a file that is not a store, or does not exist. It was left unchanged."""


class UnsupportedStoreVersion(StoreError):
    """Raised for a file that another version of this program has written. It was left unchanged."""


class StoreDamaged(StoreError):
    """Raised for a file that is a store, but has broken contents."""


class StoreLocked(StoreError):
    """Raised if another process has the store open for writing."""


class StoreReadOnly(StoreError):
    """Raised for a write if the store was opened for reading only, or its disk cannot be written."""


class StoreFull(StoreError):
    """Raised if the disk has no space left. Nothing of the batch was stored."""


class StoreFailed(StoreError):
    """Raised if the disk or SQLite fails in any other way."""


class StoreLost(StoreFailed):
    """Raised if files of a store that is open for writing were deleted, replaced or shortened: records are lost.

    The write that detects the loss raises the error, and is not reported as durable. Its own records may be lost, too.
    """


class CoordinatorFenced(StoreError):
    """Raised for a record with an older coordinator epoch than its group's last record: a newer coordinator writes."""

    def __init__(self, group: str | None, coordinator_epoch: int, current_epoch: int) -> None:
        super().__init__(
            f"{_named(group)}: fenced. Coordinator epoch {current_epoch} is current, the record has epoch "
            f"{coordinator_epoch}. Unload the group here: another coordinator has taken it over."
        )


class EventNumberConflict(StoreError):
    """Raised for a record whose event number is not that of its group's last record plus one."""

    def __init__(self, group: str | None, event_number: int, expected_number: int) -> None:
        super().__init__(
            f"{_named(group)}: the next event number is {expected_number}, not {event_number}. "
            "Another writer has appended in between: load the group again and repeat the command."
        )


class PositionTrimmed(StoreError):
    """Raised for a read that begins before the first record that has not been trimmed."""

    def __init__(self, after: int, trimmed_through: int) -> None:
        super().__init__(
            f"Records up to position {trimmed_through} have been trimmed, so reading cannot begin after {after}. "
            f"Load the snapshots and read on after their cut, or read after {trimmed_through}."
        )
        self.trimmed_through = trimmed_through


class SnapshotMissing(StoreError):
    """Raised for a trim if no snapshot covers the records that it would delete."""

    def __init__(self, before: int, cut: int) -> None:
        super().__init__(
            f"Snapshots cover the store up to position {cut}, so records before {before} cannot be trimmed. "
            f"Save snapshots with a cut of at least {before - 1} first."
        )


def _named(group: str | None) -> str:
    return "The cluster" if group is None else f"Group {group!r}"
