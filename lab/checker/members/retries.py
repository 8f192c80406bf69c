"""How members go on after a request that has failed: they look for the coordinator again, and wait before they repeat.

retries = Retries(now_ms, paused)
retries.on_request("anna", message)                 # the violation that this request is, or None
retries.on_response("anna", message, response)      # its response; None if it has failed
retries.on_note("anna", note)                       # a fault that begins
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.faults import MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, MemberNote
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest

LOOKS_AGAIN: Final = (
    "A member that has lost its coordinator, by a failed request or by the coordinator's word, sends it nothing before "
    "it has found a coordinator again."
)
WAITS_BEFORE_REPEATING: Final = (
    "A member waits for retry.backoff.ms before it repeats a FindCoordinator or Metadata request that has failed, and "
    "one of the consumer protocol before it looks again for a coordinator that is loading its groups."
)
RETRY_SENTENCES: Final = (LOOKS_AGAIN, WAITS_BEFORE_REPEATING)
OF_THE_COORDINATOR: Final = (
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ConsumerGroupHeartbeatRequest,
)
"""Requests for which a member needs a coordinator. LeaveGroup is the last one, and is sent to whoever was it."""
NOT_COORDINATOR: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
SHORTEST_BACKOFF_MS: Final = 75
"""The least of `retry.backoff.ms`, 100 by default, which is spread by 20 %."""


@dataclass(slots=True)
class _Search:
    """What one process knows of its coordinator."""

    found: int = 0
    """How many times it has found a coordinator."""
    is_lost: bool = False
    sent: dict[int, int] = field(default_factory=dict)
    """By identity of a request without a response, how many coordinators had been found when it was sent."""
    failed_ms: dict[type[Message], list[int]] = field(default_factory=dict)
    """By kind of request, when those failed that may not have been repeated yet."""
    reads_records: bool = False
    """Whether it has asked for the offsets from which it reads: its fetcher then sends Metadata requests too."""

    def on_failure(self, kind: type[Message], at_ms: int) -> None:
        """Note that a request has failed, or has to be repeated after a backoff."""
        self.failed_ms.setdefault(kind, []).append(at_ms)

    def ms_since_hasty(self, kind: type[Message], now_ms: int) -> int | None:
        """How long ago the last request of this kind has failed, if whoever sends one now cannot have waited.

        The consumer and its fetcher ask for Metadata with backoffs of their own, and nothing in a request tells whose
        it is: one of the two may send it unless both have to wait.
        """
        waiting = [each for each in self.failed_ms.pop(kind, []) if now_ms - each < SHORTEST_BACKOFF_MS]
        senders = 2 if kind is MetadataRequest and self.reads_records else 1
        if len(waiting) >= senders:
            return now_ms - waiting[-1]
        self.failed_ms[kind] = waiting
        return None


class Retries:
    """The requests of the members of a run that have failed, by name. `now_ms` is the time of the run, `paused` are the
    members that pause, and handle no response."""

    def __init__(self, now_ms: Callable[[], int], paused: Container[str]) -> None:
        self._now_ms, self._paused = now_ms, paused
        self._searches: dict[str, _Search] = {}
        self._slow_to_sync: set[str] = set()
        self._zombies: set[str] = set()

    def on_note(self, name: str, note: MemberNote) -> None:
        """Note a fault by which a member sends SyncGroup late, or commits as a zombie whatever it knows."""
        match note:
            case FaultBegan(fault) if fault.kind is MemberFaultKind.SLOW_SYNC:
                self._slow_to_sync.add(name)
            case FaultBegan(fault) if fault.kind is MemberFaultKind.ZOMBIE:
                self._zombies.add(name)

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended."""
        self._searches.pop(name, None)
        self._zombies.discard(name)

    def on_subscribe(self, name: str) -> None:
        """Note that the application of a member subscribes: it may ask for the metadata of the topics at once."""
        if name in self._searches:
            self._searches[name].failed_ms.pop(MetadataRequest, None)

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a request by what has failed before."""
        search = self._searches.setdefault(name, _Search())
        search.sent[id(message)] = search.found
        kind = type(message)
        search.reads_records |= isinstance(message, OffsetFetchRequest)
        if search.is_lost and isinstance(message, OF_THE_COORDINATOR) and not self._is_by_plan(name, message):
            return MemberViolation(LOOKS_AGAIN, f"{name} sends {kind.__name__}")
        after_ms = search.ms_since_hasty(kind, self._now_ms())
        if after_ms is None:
            return None
        return MemberViolation(WAITS_BEFORE_REPEATING, f"{name} repeats {kind.__name__} {after_ms} ms after it failed")

    def _is_by_plan(self, name: str, message: Message) -> bool:
        """Whether a member sends this request because of a fault in its plan."""
        return name in (self._slow_to_sync if isinstance(message, SyncGroupRequest) else self._zombies)

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note a response; None for a request that has failed.

        A SyncGroup that was sent late by plan went to the coordinator of an earlier time, and the member may have given
        up that rebalance: its response says nothing of the present coordinator. What fails in a pause, the member
        learns at its end, and perhaps after it has sent what was due by then.
        """
        search = self._searches.get(name)
        if search is None or (found := search.sent.pop(id(message), None)) is None:
            return
        if isinstance(response, FindCoordinatorResponse):
            codes = [each.error_code for each in response.coordinators] or [response.error_code]
            if not any(codes):
                search.found, search.is_lost = search.found + 1, False
            else:
                search.on_failure(type(message), self._now_ms())
        elif response is None and isinstance(message, FindCoordinatorRequest | MetadataRequest):
            search.on_failure(type(message), self._now_ms())
        elif name in self._paused or (isinstance(message, SyncGroupRequest) and name in self._slow_to_sync):
            return
        elif isinstance(message, OF_THE_COORDINATOR) and found == search.found:
            code = ErrorCode.NONE if response is None else first_error_code(response)
            search.is_lost |= response is None or code in NOT_COORDINATOR
            if search.is_lost:
                search.failed_ms.pop(FindCoordinatorRequest, None)
            elif _is_repeated_heartbeat(message) and code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                search.on_failure(FindCoordinatorRequest, self._now_ms())


def _is_repeated_heartbeat(message: Message) -> bool:
    """Whether the message is a heartbeat of the consumer protocol that is sent again after an error; the one with which
    a member leaves is not."""
    return isinstance(message, ConsumerGroupHeartbeatRequest) and message.member_epoch >= 0
