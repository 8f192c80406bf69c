"""Members that have got a fencing error: of the consumer protocol they process and commit nothing any more, static ones
of a classic group fail.

fenced = FencedMembers()
fenced.on_note("ben", note)                        # ben's process takes in the error of its heartbeat
fenced.on_request("ben", message)                  # ben sends a request: the violation that this is, or None
fenced.on_record("ben", partition, at_ms)          # ben has processed a record
fenced.on_response("ben", message, response)       # ben gets a response; None if there is none
fenced.on_new_life("ben")                          # ben has joined again
fenced.on_exit("ben")                              # its process has ended
"""

from dataclasses import dataclass
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.faults import MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, MemberNote, RequestRefused
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest
from regroup.protocol.messages.transactions import TxnOffsetCommitRequest

FENCED_COMMITS_NOTHING: Final = "A member that has got a fencing error commits nothing before it has joined again."
FENCED_INSTANCE_FAILS: Final = (
    "A static member of a classic group whose heartbeat is refused because another one has its instance id does not "
    "join again."
)
FENCED_PROCESSES_NOTHING: Final = (
    "A member that has got a fencing error processes nothing of what it owned but the batch that it has in hand."
)
FENCED_SENTENCES: Final = (FENCED_COMMITS_NOTHING, FENCED_PROCESSES_NOTHING, FENCED_INSTANCE_FAILS)
_HEARTBEAT: Final = ConsumerGroupHeartbeatRequest.__name__.removesuffix("Request")
_FENCING: Final = frozenset(
    ErrorCode.name_of(code)
    for code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
)


@dataclass(slots=True)
class _Fence:
    """The fencing error that a member got, and when it completed the batch of records that it had taken before."""

    error: str
    batch_at_ms: int | None = None


class FencedMembers:
    """The members of a run, by name, whose heartbeat was refused with a fencing error and which have not joined
    again."""

    def __init__(self) -> None:
        self._fences: dict[str, _Fence] = {}
        self._generations: dict[str, tuple[int, str]] = {}
        """The last generation of classic members, and their member ids."""
        self._replaced: set[str] = set()
        """Classic members whose instance id another member has."""

    def on_note(self, name: str, note: MemberNote) -> None:
        """Mark a member as fenced if its note reports that its heartbeat was refused with a fencing error.

        One that becomes a zombie is not checked any more: by the plan it commits in any case.
        """
        if isinstance(note, FaultBegan) and note.fault.kind is MemberFaultKind.ZOMBIE:
            self._fences.pop(name, None)
        elif isinstance(note, RequestRefused) and note.api == _HEARTBEAT and note.error in _FENCING:
            self._fences.setdefault(name, _Fence(note.error))

    def on_new_life(self, name: str) -> None:
        """Mark a member as no longer fenced: it has joined again."""
        self._fences.pop(name, None)

    def on_exit(self, name: str) -> None:
        """Forget what was known of a member: its process has ended."""
        self.on_new_life(name)
        self._generations.pop(name, None)
        self._replaced.discard(name)

    def on_unsubscribe(self, name: str) -> None:
        """Note that the application of a member unsubscribes, by which the member gives up its generation: as in Java,
        it ignores what a heartbeat of that generation still gets."""
        self._generations.pop(name, None)

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note the generation of a classic member, and that its heartbeat is fenced in it; None for a request that has
        failed."""
        if isinstance(response, JoinGroupResponse) and not response.error_code:
            self._generations[name] = response.generation_id, response.member_id
        elif isinstance(message, JoinGroupRequest | SyncGroupRequest | OffsetCommitRequest) and _is_refused(response):
            self._generations.pop(name, None)  # it may have lost its generation by this
        elif isinstance(message, HeartbeatRequest) and isinstance(response, HeartbeatResponse):
            is_fenced = response.error_code == ErrorCode.FENCED_INSTANCE_ID
            if is_fenced and self._generations.get(name) == (message.generation_id, message.member_id):
                self._replaced.add(name)

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a request that a member sends; returns a violation if it is a commit of a fenced member, or a JoinGroup
        of one that has to fail."""
        if isinstance(message, JoinGroupRequest) and name in self._replaced:
            return MemberViolation(FENCED_INSTANCE_FAILS, f"{name} joins again after FENCED_INSTANCE_ID")
        fence = self._fences.get(name)
        if fence is None or not isinstance(message, OffsetCommitRequest | TxnOffsetCommitRequest):
            return None
        return MemberViolation(FENCED_COMMITS_NOTHING, f"{name} commits after {fence.error}")

    def on_record(self, name: str, partition: TopicPartition, at_ms: int) -> MemberViolation | None:
        """Check a record that a member has processed; returns a violation if the member is fenced.

        A fenced member may complete the batch that it had taken before: the records that it processes at the first
        time.
        """
        fence = self._fences.get(name)
        if fence is None:
            return None
        if fence.batch_at_ms is None:
            fence.batch_at_ms = at_ms
        if fence.batch_at_ms == at_ms:
            return None
        return MemberViolation(FENCED_PROCESSES_NOTHING, f"{name} processes {partition} after {fence.error}")


def _is_refused(response: Any) -> bool:
    return response is not None and bool(first_error_code(response))
