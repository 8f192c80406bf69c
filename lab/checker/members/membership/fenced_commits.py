"""Commits of static members that are refused because another process has the instance id: which of them fail the
member.

commits = FencedCommits(now_ms, paused)
commits.on_request("anna", message)
commits.on_response("anna", message, response)      # its response; None if it has failed
commits.on_unsubscribe("anna")                      # anna gives up her generation
commits.on_completed("anna", change)                # the violation that this is, or None
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.commits import CommitOffsets, offsets_of
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.consumer.effects import CommitCompleted, ConsumerErrorKind
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest

FENCED_IN_ITS_GENERATION: Final = (
    "A commit that is refused with FENCED_INSTANCE_ID fails its member if the member is still in the generation of the "
    "commit, and otherwise does not."
)
LATEST_MS: Final = 5_000
"""A later response may find a member that has left since then by its poll timeout, of which a static one says nothing.
No plan has a shorter `max.poll.interval.ms` than 10 s."""
_OF_THE_MEMBERSHIP: Final = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest)
_KEEP_THE_GENERATION: Final = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


@dataclass(slots=True)
class _Process:
    """What the requests of one process have shown. A generation is an id and a member id."""

    generation: tuple[int, str] | None = None
    """The present generation; None if it may have been lost."""
    given_up: set[tuple[int, str]] = field(default_factory=set)
    """The generations in which the member is no more."""
    sent_ms: dict[int, int] = field(default_factory=dict)
    """By identity of a commit without a response, when it was sent."""
    fails: dict[CommitOffsets, bool] = field(default_factory=dict)
    """By the offsets of a commit that was refused and is not complete, whether it has to fail the member."""


class FencedCommits:
    """The commits of the members of a run, by name. `now_ms` is the time of the run, `paused` are the members that
    pause, and handle no response."""

    def __init__(self, now_ms: Callable[[], int], paused: Container[str]) -> None:
        self._now_ms, self._paused = now_ms, paused
        self._processes: dict[str, _Process] = {}

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended."""
        self._processes.pop(name, None)

    def _process(self, name: str) -> _Process:
        return self._processes.setdefault(name, _Process())

    def on_unsubscribe(self, name: str) -> None:
        """Note that the application of a member unsubscribes, by which the member gives up its generation."""
        process = self._process(name)
        if process.generation is not None:
            process.given_up.add(process.generation)
        process.generation = None

    def on_request(self, name: str, message: Message) -> None:
        """Note when a commit is sent."""
        if isinstance(message, OffsetCommitRequest):
            self._process(name).sent_ms[id(message)] = self._now_ms()

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note a new or lost generation, and a commit that is refused as fenced. None is a request that has failed."""
        process = self._process(name)
        sent_ms = process.sent_ms.pop(id(message), None)
        if response is None or not isinstance(message, _OF_THE_MEMBERSHIP):
            return
        code = first_error_code(response)
        if isinstance(message, OffsetCommitRequest) and code == ErrorCode.FENCED_INSTANCE_ID:
            is_late = sent_ms is None or self._now_ms() - sent_ms > LATEST_MS
            sender = message.generation_id_or_member_epoch, message.member_id
            if not is_late and name not in self._paused and sender in (process.generation, *process.given_up):
                process.fails[offsets_of(message)] = sender == process.generation
        if isinstance(response, JoinGroupResponse) and code == ErrorCode.NONE:
            if process.generation is not None:
                process.given_up.add(process.generation)
            process.generation = response.generation_id, response.member_id
            process.given_up.discard(process.generation)
        elif code not in _KEEP_THE_GENERATION:
            process.generation = None

    def on_completed(self, name: str, change: CommitCompleted) -> MemberViolation | None:
        """Check how a commit has ended that was refused as fenced."""
        fails = self._process(name).fails.pop(frozenset(change.offsets.items()), None)
        if fails is None or change.error is None or (change.error.kind is ConsumerErrorKind.FENCED) is fails:
            return None
        found = "fails" if not fails else "does not fail"
        return MemberViolation(FENCED_IN_ITS_GENERATION, f"{name} {found}: {change.error}")
