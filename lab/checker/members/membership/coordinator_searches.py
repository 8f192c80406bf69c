"""When a classic member looks for its coordinator: not while the coordinator answers its heartbeats in time.

searches = CoordinatorSearches(now_ms)
searches.add_member("anna", session_timeout_ms=10_000)
searches.on_request("anna", message)                # the violation that this request is, or None
searches.on_response("anna", message, response)     # its response; None if it has failed
searches.on_note("anna", note)                      # a fault of anna begins or ends
searches.on_new_life("anna")                        # anna's process has ended
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.poll_timeouts import ROUNDING_MS
from regroup.members.faults import MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, FaultEnded, MemberNote
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest

KEEPS_ITS_COORDINATOR: Final = (
    "A classic member looks for its coordinator only if it knows none, or a request to it has failed or was refused, "
    "or none of its heartbeats was accepted, also with REBALANCE_IN_PROGRESS, for session.timeout.ms."
)
_OF_THE_GROUP: Final = (
    *(FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest),
    *(OffsetCommitRequest, OffsetFetchRequest),
)
WITHHOLDS_SYNC: Final = (MemberFaultKind.NEVER_SYNC, MemberFaultKind.SLOW_SYNC)
"""Faults of members that withhold a SyncGroup, which their consumers take for sent."""
ACCEPTS: Final = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
"""The error codes of responses that accept a member."""


@dataclass(slots=True)
class _Search:
    """One process of a member, and what it knows of its coordinator."""

    session_timeout_ms: int
    has_cause: bool = True
    """Whether it may look for its coordinator: it knows none, or a request to it has failed or was refused."""
    accepted_ms: int = 0
    """When its last heartbeat was accepted, or its coordinator found."""
    waiting: set[int] = field(default_factory=set)
    """Its requests of the group without a response, by identity: one of them may time out."""


class CoordinatorSearches:
    """The classic members of a run, by name. `now_ms` is the time of the run."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._searches: dict[str, _Search] = {}
        self._withholding: set[str] = set()
        """Members that by their faults withhold a SyncGroup, which they take for sent: it times out unseen."""

    def add_member(self, name: str, session_timeout_ms: int) -> None:
        """Begin to check a member with this `session.timeout.ms`."""
        self._searches[name] = _Search(session_timeout_ms)

    def on_new_life(self, name: str) -> None:
        """Forget what the process of a member knew: it has ended."""
        if search := self._searches.get(name):
            self._searches[name] = _Search(search.session_timeout_ms)

    def on_note(self, name: str, note: MemberNote) -> None:
        """Note that a member pauses or goes on: it may have missed a response, or is a new process. Note too that it
        begins to withhold requests."""
        search = self._searches.get(name)
        if isinstance(note, FaultBegan) and note.fault.kind in WITHHOLDS_SYNC:
            self._withholding.add(name)
        elif search is not None and isinstance(note, FaultBegan | FaultEnded):
            search.has_cause = True

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a FindCoordinator, which needs a cause."""
        search = self._searches.get(name)
        if search is None or not isinstance(message, _OF_THE_GROUP):
            return None
        silent_ms = self._now_ms() - search.accepted_ms
        is_silent = silent_ms >= search.session_timeout_ms - ROUNDING_MS
        may_look = search.has_cause or search.waiting or is_silent or name in self._withholding
        search.waiting.add(id(message))
        if may_look or not isinstance(message, FindCoordinatorRequest):
            return None
        search.has_cause = True
        detail = f"{name} looks for its coordinator, which has accepted a heartbeat {silent_ms} ms ago"
        return MemberViolation(KEEPS_ITS_COORDINATOR, detail)

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note what a response says of the coordinator. `response` is None for a request that has failed.

        The response to a request of a former process says nothing to this one.
        """
        search = self._searches.get(name)
        if search is None or id(message) not in search.waiting:
            return
        search.waiting.discard(id(message))
        code = None if response is None else first_error_code(response)
        if isinstance(message, FindCoordinatorRequest):
            if code == ErrorCode.NONE:
                search.has_cause, search.accepted_ms = False, self._now_ms()
            return
        search.has_cause |= code not in ACCEPTS
        if isinstance(message, HeartbeatRequest) and code in ACCEPTS:
            search.accepted_ms = self._now_ms()
