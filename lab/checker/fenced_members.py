"""Members of the consumer protocol that have heard that they are fenced: they process and commit nothing any more.

fenced = FencedMembers()
fenced.on_note("ben", note, at_ms)                 # ben's process takes in the error of its heartbeat
fenced.on_request("ben", message)                  # ben sends a request: the violation that this is, or None
fenced.on_record("ben", partition, at_ms)          # ben has processed a record
fenced.on_new_life("ben")                          # ben has joined again, or its process has ended
"""

from dataclasses import dataclass
from typing import Final

from regroup.lab.checker.member_invariants import MemberViolation
from regroup.members.runtime.notes import MemberNote, RequestRefused
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest
from regroup.protocol.messages.transactions import TxnOffsetCommitRequest

FENCED_COMMITS_NOTHING: Final = "A member that has heard that it is fenced commits nothing before it has joined again."
FENCED_PROCESSES_NOTHING: Final = (
    "A member that has heard that it is fenced processes nothing of what it owned but the batch that it has in hand."
)
_HEARTBEAT: Final = ConsumerGroupHeartbeatRequest.__name__.removesuffix("Request")
_FENCING: Final = frozenset(
    ErrorCode.name_of(code)
    for code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
)


@dataclass(slots=True)
class _Fence:
    """When a member has heard that it is fenced, and when it has completed the batch that it had taken before."""

    error: str
    batch_at_ms: int | None = None


class FencedMembers:
    """The fenced members of a run, by name."""

    def __init__(self) -> None:
        self._fences: dict[str, _Fence] = {}

    def on_note(self, name: str, note: MemberNote) -> None:
        """Take a note of a member: it may be the refusal of its heartbeat."""
        if isinstance(note, RequestRefused) and note.api == _HEARTBEAT and note.error in _FENCING:
            self._fences.setdefault(name, _Fence(note.error))

    def on_new_life(self, name: str) -> None:
        """The member has joined again, or its process has ended."""
        self._fences.pop(name, None)

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a request that a member sends."""
        fence = self._fences.get(name)
        if fence is None or not isinstance(message, OffsetCommitRequest | TxnOffsetCommitRequest):
            return None
        return MemberViolation(FENCED_COMMITS_NOTHING, f"{name} commits after {fence.error}")

    def on_record(self, name: str, partition: TopicPartition, at_ms: int) -> MemberViolation | None:
        """Check a record that a member has processed. The records of one batch are processed at the same time."""
        fence = self._fences.get(name)
        if fence is None:
            return None
        if fence.batch_at_ms is None:
            fence.batch_at_ms = at_ms
        if fence.batch_at_ms == at_ms:
            return None
        return MemberViolation(FENCED_PROCESSES_NOTHING, f"{name} processes {partition} after {fence.error}")
