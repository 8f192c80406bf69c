"""Members that are closed or unsubscribe: one that its coordinator accepts as a member leaves its group.

departures = Departures(paused=())
departures.on_request("ben", message)                    # ben sends a request: the violation that this is, or None
departures.on_response("ben", message, response)         # ben gets its response; None if there is none
departures.on_unsubscribe("ben")                         # ben's application unsubscribes: the member leaves next
departures.on_close("ben")                               # the violation that this is, or None
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.runtime.notes import FaultEnded, MemberNote
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest

CLOSED_MEMBER_LEAVES: Final = (
    "A member that is closed or unsubscribes leaves its group, if its coordinator has accepted its last heartbeat, "
    "also while its JoinGroup has no response; a static member of a classic group does not (KIP-345)."
)
LEAVES_AS_A_MEMBER: Final = (
    "A classic member leaves with the member id that it has got, and not after its coordinator has refused its "
    "generation."
)
DEPARTURE_SENTENCES: Final = (CLOSED_MEMBER_LEAVES, LEAVES_AS_A_MEMBER)
_PROVES_MEMBERSHIP: Final = (HeartbeatRequest, SyncGroupRequest, ConsumerGroupHeartbeatRequest)
_OF_THE_COORDINATOR: Final = (*_PROVES_MEMBERSHIP, FindCoordinatorRequest, JoinGroupRequest, LeaveGroupRequest)


@dataclass(slots=True)
class _Membership:
    """What the requests of one process have shown."""

    is_accepted: bool = False
    """Whether the last response of its coordinator accepts it as a member."""
    stays_when_closed: bool = False
    """Whether it is a static member of a classic group."""
    has_left: bool = False
    is_to_leave: bool = False
    """Whether its application has unsubscribed, and it has to leave before it joins again."""
    generation_id: int = -1
    """The generation of its last JoinGroup response."""
    has_lost_generation: bool = False
    """Whether its coordinator has refused its generation since it has sent JoinGroup."""


class Departures:
    """The members of a run, by name, and which of them have left their groups.

    `paused` are those that pause, and handle no response.
    """

    def __init__(self, paused: Container[str]) -> None:
        self._paused = paused
        self._memberships: dict[str, _Membership] = {}

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended."""
        self._memberships.pop(name, None)

    def on_note(self, name: str, note: MemberNote) -> None:
        """Note the end of a pause: a member that goes on may find that its session has expired, and takes its
        coordinator for lost."""
        if isinstance(note, FaultEnded):
            membership = self._memberships.setdefault(name, _Membership())
            membership.is_accepted = membership.is_to_leave = False

    def on_unsubscribe(self, name: str) -> None:
        """Note that the application of a classic member unsubscribes, by which the member leaves."""
        membership = self._memberships.setdefault(name, _Membership())
        membership.is_to_leave = membership.is_accepted and not membership.stays_when_closed

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Note whether a member leaves with a request, or looks for its coordinator again. A LeaveGroup is checked: it
        names a member, and one that has not lost its generation. So is a JoinGroup: after its application has
        unsubscribed the member has left."""
        membership = self._memberships.setdefault(name, _Membership())
        match message:
            case JoinGroupRequest():
                has_stayed, membership.is_to_leave = membership.is_to_leave, False
                membership.stays_when_closed = message.group_instance_id is not None
                membership.has_left = membership.has_lost_generation = False
                membership.is_accepted &= bool(message.member_id)
                if has_stayed:
                    return MemberViolation(CLOSED_MEMBER_LEAVES, f"{name} joins again, and has not left")
            case ConsumerGroupHeartbeatRequest():
                membership.stays_when_closed = False
                membership.has_left = message.member_epoch < 0
            case LeaveGroupRequest():
                membership.has_left, membership.is_to_leave = True, False
                return _check_leave(name, membership, message)
            case FindCoordinatorRequest():
                membership.is_accepted = membership.is_to_leave = False
        return None

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note whether a response accepts its member. `response` is None for a request that has failed."""
        membership = self._memberships.get(name)
        if membership is None:
            return
        if isinstance(response, JoinGroupResponse) and response.error_code == ErrorCode.NONE:
            # A heartbeat of the generation before may have been refused after the JoinGroup was sent.
            membership.generation_id, membership.has_lost_generation = response.generation_id, False
        elif isinstance(message, HeartbeatRequest) and isinstance(response, HeartbeatResponse):
            is_refused = response.error_code == ErrorCode.ILLEGAL_GENERATION and name not in self._paused
            membership.has_lost_generation |= is_refused and message.generation_id == membership.generation_id
        if response is None or (isinstance(message, OffsetCommitRequest) and first_error_code(response)):
            # A commit that is refused says that the member may be none any more.
            membership.is_accepted = membership.is_to_leave = False
        elif isinstance(message, _OF_THE_COORDINATOR):
            code = getattr(response, "error_code", None)
            is_beating = isinstance(message, HeartbeatRequest) and code == ErrorCode.REBALANCE_IN_PROGRESS
            membership.is_accepted = isinstance(message, _PROVES_MEMBERSHIP) and (code == ErrorCode.NONE or is_beating)

    def on_close(self, name: str) -> MemberViolation | None:
        """Check a member whose consumer is closed; returns a violation if it should have left its group."""
        membership = self._memberships.get(name, _Membership())
        if not membership.is_accepted or membership.has_left or membership.stays_when_closed:
            return None
        return MemberViolation(CLOSED_MEMBER_LEAVES, f"{name} was accepted as a member, and sends nothing that leaves")


def _check_leave(name: str, membership: _Membership, message: LeaveGroupRequest) -> MemberViolation | None:
    ids = [each.member_id for each in message.members] or [message.member_id]
    if membership.stays_when_closed:
        return MemberViolation(CLOSED_MEMBER_LEAVES, f"{name} is static, and leaves its group")
    if not all(ids):
        return MemberViolation(LEAVES_AS_A_MEMBER, f"{name} leaves without a member id")
    if membership.has_lost_generation:
        return MemberViolation(LEAVES_AS_A_MEMBER, f"{name} leaves after ILLEGAL_GENERATION")
    return None
