"""When the application of a member unsubscribes, and subscribes again: between two batches of records.

calls = SubscriptionCalls()
calls.on_due("anna")                  # anna's application is to unsubscribe as soon as it can
calls.on_record("anna", now_ms)           # anna has processed a record; the violation that this is, or None
calls.on_called("anna")                   # anna's application has unsubscribed
"""

from typing import Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.runtime.notes import FaultEnded, MemberNote

CALLS_BETWEEN_BATCHES: Final = (
    "An application that is to unsubscribe, or to subscribe again, does so before it processes a second batch."
)


class SubscriptionCalls:
    """The calls that the applications of members have yet to make, by the name of the member."""

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        """How many calls a member has yet to make."""
        self._batch_ms: dict[str, int] = {}
        """When a member with such a call has completed a batch. All records of a batch are processed at its end."""

    def on_due(self, name: str) -> None:
        """Note that the application of a member, which is not paused, is to call its consumer: now, or after its
        batch."""
        self._due[name] = self._due.get(name, 0) + 1

    def on_called(self, name: str) -> None:
        """Note that it has made such a call."""
        left = self._due.pop(name, 1) - 1
        if left:
            self._due[name] = left
        self._batch_ms.pop(name, None)

    def on_record(self, name: str, now_ms: int) -> MemberViolation | None:
        """Check a record that a member has processed at a time in milliseconds."""
        if name not in self._due:
            return None
        completed_ms = self._batch_ms.setdefault(name, now_ms)
        if now_ms == completed_ms:
            return None
        detail = f"{name} has processed a batch at {completed_ms} ms and another one at {now_ms} ms before its call"
        return MemberViolation(CALLS_BETWEEN_BATCHES, detail)

    def on_new_life(self, name: str) -> None:
        """Note that the process of a member has ended, which makes no call any more."""
        self._due.pop(name, None)
        self._batch_ms.pop(name, None)

    def on_note(self, name: str, note: MemberNote) -> None:
        """Take note that a process has restarted: its application makes no call that was planned before."""
        if isinstance(note, FaultEnded) and note.condition == "restarting":
            self.on_new_life(name)
