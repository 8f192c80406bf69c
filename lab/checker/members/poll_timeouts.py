"""The limit of an application that does not call poll(), Kafka's `max.poll.interval.ms`: when its member has to leave.

timeouts = PollTimeouts(now_ms, paused=())
timeouts.add_member("anna", 300_000, stay)                # stay() says when anna's application was last outside poll()
timeouts.on_request("anna", message)                      # the violation that this request shows, or None
timeouts.on_response("anna", message, response)           # its response, before anna gets it; None if it has failed
timeouts.on_change("anna", change)                        # anna's consumer reports a change
timeouts.on_note("anna", note)                            # a fault of anna begins or ends
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.consumer.effects import ConsumerChange, ConsumerError, JoinedGroup, LeftGroup
from regroup.members.faults import MemberFaultKind
from regroup.members.runtime.application import PollStay
from regroup.members.runtime.notes import FaultBegan, FaultEnded, MemberNote
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest

POLL_TIMEOUT: Final = (
    "A member whose application has not been inside poll() for max.poll.interval.ms sends no more heartbeats."
)
LEAVES_AFTER_THE_LIMIT: Final = (
    "A member leaves because of its poll timeout only when its application has been outside poll() for "
    "max.poll.interval.ms."
)
LEAVES_AT_THE_LIMIT: Final = (
    "A member that its coordinator accepts, and whose application stays outside poll() for longer than "
    "max.poll.interval.ms, tells the coordinator by then that it leaves; a static member of a classic group does not "
    "(KIP-345)."
)
POLL_TIMEOUT_SENTENCES: Final = (POLL_TIMEOUT, LEAVES_AFTER_THE_LIMIT, LEAVES_AT_THE_LIMIT)
POLL_TIMEOUT_REASON: Final = "consumer poll timeout has expired."
"""The reason in the LeaveGroup of Kafka's consumer (KIP-800)."""
REASONS_OF_CALLS: Final = ("the consumer is being closed", "the consumer unsubscribed from all topics")
"""The reasons of a consumer whose application calls close() or unsubscribe()."""
POLL_SLACK_MS: Final = 50
"""How late a member may notice it."""
ROUNDING_MS: Final = 2
"""The clock of members and that of the run are rounded in different ways."""
_OF_THE_COORDINATOR: Final = (
    *(JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, ConsumerGroupHeartbeatRequest),
    *(OffsetCommitRequest, OffsetFetchRequest),
)
_PROVES_MEMBERSHIP: Final = (SyncGroupRequest, HeartbeatRequest, ConsumerGroupHeartbeatRequest)


def is_heartbeat(message: Message) -> bool:
    """Whether a request is a heartbeat of either protocol by which a member stays in its group, and not one by which it
    leaves."""
    if isinstance(message, ConsumerGroupHeartbeatRequest):
        return message.member_epoch >= 0
    return isinstance(message, HeartbeatRequest)


@dataclass(slots=True)
class _Polling:
    """One member: its limit, and what its present process has shown."""

    limit_ms: int
    stay: Callable[[], PollStay | None]
    accepted_ms: int | None = None
    """Since when its coordinator has accepted it; None if it does not."""
    joined_ms: int = 0
    """When its last generation began, which starts the limit again."""
    inside_ms: list[int] = field(default_factory=list)
    """When it has got its last responses inside poll()."""
    has_left: bool = False
    is_judged: bool = True
    """Whether it may have to leave: not a static member of a classic group, nor one that closes or is a zombie."""
    is_called_to_leave: bool = False
    """Whether a member of the consumer protocol has reported that it is being closed."""
    judged_stay_ms: int = -1
    """When the stay began that was judged last."""


class PollTimeouts:
    """The members of a run, by name. `now_ms` is the time of the run; `paused` members handle no response."""

    def __init__(self, now_ms: Callable[[], int], paused: Container[str]) -> None:
        self._now_ms, self._paused = now_ms, paused
        self._members: dict[str, _Polling] = {}

    def add_member(self, name: str, limit_ms: int, stay: Callable[[], PollStay | None]) -> None:
        """Begin to check a member with this `max.poll.interval.ms`."""
        self._members[name] = _Polling(limit_ms, stay)

    def on_new_life(self, name: str) -> None:
        """Forget what the process of a member has shown: it has ended."""
        if member := self._members.get(name):
            self._members[name] = _Polling(member.limit_ms, member.stay)

    def on_note(self, name: str, note: MemberNote) -> None:
        """Take note that a member pauses, goes on, becomes a zombie or leaves: its session may have expired meanwhile,
        or it leaves by itself."""
        member = self._members.get(name)
        if member is not None and isinstance(note, FaultBegan | FaultEnded):
            lasts = isinstance(note, FaultBegan) and note.fault.kind.is_lasting
            if not lasts and not (isinstance(note, FaultBegan) and note.fault.kind is MemberFaultKind.NO_POLL):
                member.accepted_ms = None
            if isinstance(note, FaultBegan) and note.fault.kind in (MemberFaultKind.ZOMBIE, MemberFaultKind.LEAVE):
                member.is_judged = False

    def on_change(self, name: str, change: ConsumerChange | ConsumerError) -> None:
        """Take note that a member has joined a generation, or says that it leaves."""
        if member := self._members.get(name):
            if isinstance(change, JoinedGroup):
                member.joined_ms = self._now_ms()
            member.is_called_to_leave |= isinstance(change, LeftGroup)

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a request by which a member leaves, and by its next one whether it should have left."""
        member = self._members.get(name)
        if member is None:
            return None
        match message:
            case FindCoordinatorRequest():
                member.accepted_ms = None
            case LeaveGroupRequest():
                reasons = {each.reason or "" for each in message.members}
                member.has_left = bool(reasons & {POLL_TIMEOUT_REASON, *REASONS_OF_CALLS})
                return self._check_limit(name, member) if POLL_TIMEOUT_REASON in reasons else None
            case ConsumerGroupHeartbeatRequest() if message.member_epoch < 0:
                member.has_left = True
                return None if member.is_called_to_leave else self._check_limit(name, member, is_classic=False)
            case JoinGroupRequest() | SyncGroupRequest() | HeartbeatRequest() | ConsumerGroupHeartbeatRequest():
                found = self._check_last_stay(name, member)
                if isinstance(message, JoinGroupRequest):
                    member.is_judged = message.group_instance_id is None
                if isinstance(message, JoinGroupRequest) or getattr(message, "member_epoch", -1) == 0:
                    member.has_left, member.accepted_ms = False, None
                return found
        return None

    def _check_limit(self, name: str, member: _Polling, *, is_classic: bool = True) -> MemberViolation | None:
        """Check a member that leaves now because of its poll timeout."""
        stay, now_ms = member.stay(), self._now_ms()
        if stay is None or stay.back_ms is not None:
            return MemberViolation(LEAVES_AFTER_THE_LIMIT, f"{name} leaves, and its application is inside poll()")
        # A classic member counts from the last time at which it did something inside poll().
        before = [each for each in member.inside_ms if each < stay.left_ms - ROUNDING_MS]
        since_ms = stay.left_ms if not is_classic else before[-1] if before else None
        if since_ms is None or now_ms - since_ms >= member.limit_ms - ROUNDING_MS:
            return None
        detail = f"{name} was inside poll() {now_ms - since_ms} ms ago, and its limit is {member.limit_ms} ms"
        return MemberViolation(LEAVES_AFTER_THE_LIMIT, detail)

    def _check_last_stay(self, name: str, member: _Polling) -> MemberViolation | None:
        """Check a member whose application was outside poll(), and is back: whether it has left meanwhile if it had
        to."""
        stay = member.stay()
        if stay is None or stay.back_ms is None or stay.left_ms == member.judged_stay_ms:
            return None
        member.judged_stay_ms = stay.left_ms
        due_ms = max(stay.left_ms, member.joined_ms) + member.limit_ms
        is_accepted = member.accepted_ms is not None and member.accepted_ms <= due_ms
        if stay.back_ms <= due_ms + POLL_SLACK_MS or not is_accepted or member.has_left or not member.is_judged:
            return None
        outside_ms = stay.back_ms - stay.left_ms
        detail = f"{name} was outside poll() for {outside_ms} ms, its limit is {member.limit_ms} ms; it has not left"
        return MemberViolation(LEAVES_AT_THE_LIMIT, detail)

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note whether the coordinator accepts a member. `response` is None for a request that has failed."""
        member = self._members.get(name)
        if member is None or name in self._paused or not isinstance(message, _OF_THE_COORDINATOR):
            return
        code = None if response is None else first_error_code(response)
        if code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            member.accepted_ms = None
        elif isinstance(message, _PROVES_MEMBERSHIP) and member.accepted_ms is None:
            member.accepted_ms = self._now_ms()
        stay = member.stay()
        is_inside = stay is None or stay.back_ms is not None
        if response is not None and is_inside and isinstance(message, HeartbeatRequest | SyncGroupRequest):
            member.inside_ms = [*member.inside_ms[-3:], self._now_ms()]
