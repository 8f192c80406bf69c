"""What can go wrong with a store. Every message says what to do.

StoreError
  ├─ NotAStore            the file belongs to somebody else, or there is none
  ├─ StoreIsNewer         written by a newer version of this program
  ├─ StoreIsDamaged       ours, but its contents are broken
  ├─ StoreIsLocked        another process writes to it
  ├─ StoreIsReadOnly      it was opened for reading, or the disk forbids writing
  ├─ StoreIsFull          no room on the disk
  ├─ StoreFailed          any other failure of the disk or of SQLite
  ├─ ReignIsOver          a newer coordinator has written to this group
  ├─ NumberIsTaken        the number does not follow the group's last one
  ├─ PositionTrimmed      records were asked for that have been forgotten
  └─ SnapshotMissing      records were to be forgotten that no snapshot covers

After any of them the store holds exactly what it held before.
"""


class StoreError(Exception):
    """Something is wrong with the store, or with what was asked of it."""


class NotAStore(StoreError):
    """The file is not one of ours; it was left untouched."""


class StoreIsNewer(StoreError):
    """The file was written by a newer version of this program; it was left untouched."""


class StoreIsDamaged(StoreError):
    """The file is ours, but its contents are broken."""


class StoreIsLocked(StoreError):
    """Another process has the store open for writing."""


class StoreIsReadOnly(StoreError):
    """The store was opened for reading only, or the disk forbids writing."""


class StoreIsFull(StoreError):
    """The disk has no room for more; nothing of the refused batch was stored."""


class StoreFailed(StoreError):
    """The disk, or SQLite itself, failed."""


class ReignIsOver(StoreError):
    """A record of an older reign than its group's last: another coordinator rules the group now."""

    def __init__(self, group: str | None, reign: int, current: int) -> None:
        super().__init__(
            f"{whose(group)} is ruled by reign {current}; a record of reign {reign} came too late. "
            "Unload the group here: another coordinator has taken it over."
        )
        self.group, self.reign, self.current = group, reign, current


class NumberIsTaken(StoreError):
    """A record whose number is not its group's last number plus one."""

    def __init__(self, group: str | None, number: int, expected: int) -> None:
        super().__init__(
            f"{whose(group)} continues with record number {expected}, not {number}. "
            "Somebody else wrote in between: load the group again and decide anew."
        )
        self.group, self.number, self.expected = group, number, expected


class PositionTrimmed(StoreError):
    """Records were asked for that have been forgotten."""

    def __init__(self, after: int, trimmed_through: int) -> None:
        super().__init__(
            f"Records up to position {trimmed_through} have been trimmed, so reading cannot begin after {after}. "
            f"Load the snapshots and read on after their cut, or read after {trimmed_through}."
        )
        self.after, self.trimmed_through = after, trimmed_through


class SnapshotMissing(StoreError):
    """Records were to be forgotten that no snapshot covers."""

    def __init__(self, before: int, cut: int) -> None:
        super().__init__(
            f"Snapshots cover the store up to position {cut}, so records before {before} cannot be trimmed. "
            f"Save snapshots with a cut of at least {before - 1} first."
        )
        self.before, self.cut = before, cut


def whose(group: str | None) -> str:
    return "The cluster's history" if group is None else f"Group {group!r}"
