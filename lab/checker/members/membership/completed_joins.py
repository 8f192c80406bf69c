"""Followers whose JoinGroup is answered: they send SyncGroup next.

joins = CompletedJoins(paused=())
joins.on_request("ben", message)                # ben sends a request: the violation that this is, or None
joins.on_response("ben", message, response)     # ben gets its response; None if there is none
joins.on_note("ben", note)                      # a fault of ben begins or ends
joins.on_interruption("ben")                    # ben's application unsubscribes, or poll() throws an error
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Final

from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.membership.coordinator_searches import ACCEPTS, WITHHOLDS_SYNC
from regroup.lab.checker.members.membership.lost_generations import ENDS_A_GENERATION
from regroup.members.runtime.notes import FaultBegan, FaultEnded, MemberNote
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest

SYNCS_AFTER_JOINING: Final = (
    "A follower that gets a generation in the response to its JoinGroup sends SyncGroup before it sends another one, "
    "unless it has left or lost its coordinator, or its last generation was refused, while it joined."
)
_OF_THE_GROUP: Final = (HeartbeatRequest, SyncGroupRequest, OffsetCommitRequest, OffsetFetchRequest)

Generation = tuple[int, str]
"""A generation id and a member id."""


@dataclass(slots=True)
class _Join:
    """One process, and its last JoinGroup."""

    generation: Generation | None = None
    """That of the last response to a JoinGroup; None if it was refused since, or if there was none."""
    request: int | None = None
    """The identity of a JoinGroup without a response; None if there is none, or if its generation need not count."""
    is_answered: bool = False
    """Whether the member has a generation as a follower, and has sent no SyncGroup for it."""

    def forget(self) -> None:
        """Expect no SyncGroup for the present JoinGroup."""
        self.request, self.is_answered = None, False


class CompletedJoins:
    """The classic members of a run, by name. `paused` are those that pause, and handle no response."""

    def __init__(self, paused: Container[str]) -> None:
        self._paused = paused
        self._joins: dict[str, _Join] = {}
        self._withholding: set[str] = set()
        """Members that by their faults withhold a SyncGroup."""

    def on_new_life(self, name: str) -> None:
        """Forget what the process of a member knew: it has ended."""
        self._joins.pop(name, None)

    def on_note(self, name: str, note: MemberNote) -> None:
        """Note the faults of a member: it may miss responses, or withhold its SyncGroup."""
        if isinstance(note, FaultBegan) and note.fault.kind in WITHHOLDS_SYNC:
            self._withholding.add(name)
        if isinstance(note, FaultBegan | FaultEnded):
            self.on_interruption(name)

    def on_interruption(self, name: str) -> None:
        """Note that a member may have ended its membership without a request."""
        if join := self._joins.get(name):
            join.forget()

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a JoinGroup: no former one was answered without a SyncGroup since."""
        if isinstance(message, JoinGroupRequest):
            join = self._joins.setdefault(name, _Join())
            was_answered, join.request, join.is_answered = join.is_answered, id(message), False
            if was_answered and name not in self._withholding:
                return MemberViolation(SYNCS_AFTER_JOINING, f"{name} joins again in place of SyncGroup")
        elif isinstance(message, SyncGroupRequest | LeaveGroupRequest | FindCoordinatorRequest):
            self.on_interruption(name)
        return None

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note what a response says of a member's JoinGroup or of its generation; None for a request that has failed.

        The refusal of a commit of another generation than the last one changes nothing while the member joins.
        """
        join = self._joins.get(name)
        if join is None:
            return
        if response is None or name in self._paused:
            join.forget()
        elif isinstance(response, JoinGroupResponse):
            if response.error_code == ErrorCode.NONE:
                join.generation = response.generation_id, response.member_id
                is_follower = response.leader != response.member_id
                join.is_answered = is_follower and id(message) == join.request
            join.request = None
        elif isinstance(message, _OF_THE_GROUP) and (code := first_error_code(response)) not in ACCEPTS:
            is_of_another = (
                isinstance(message, OffsetCommitRequest)
                and code in ENDS_A_GENERATION
                and (message.generation_id_or_member_epoch, message.member_id) != join.generation
            )
            if not is_of_another:
                join.forget()
                join.generation = None
