"""What the plan says of a member, and what the member does: its lasting faults, and how it reads records.

planned = PlannedMembers(now_ms)
planned.add_member("anna", faults, reads_committed=False, settings=settings)     # it has to join with these settings
planned.on_note("anna", note)                       # a fault begins
planned.on_request("anna", message)                 # the violation that this request is, or None
planned.on_response("anna", message, response)      # its response; None if it has failed
planned.on_request_outside_poll("anna", 1_500)      # anna's application has been outside poll() for so long
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import FaultTrigger, MemberFault, MemberFaultKind
from regroup.members.runtime.notes import FaultBegan, MemberNote
from regroup.protocol.consumer.subscription import decode_assignment
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from regroup.protocol.messages.records import FetchRequest, ListOffsetsRequest

FAULTS_ARE_REPORTED: Final = (
    "A member with a fault that lasts from its start reports the fault, and only then sends its first request."
)
SYNCS_LATE: Final = "A member with the fault slow-sync:T sends SyncGroup the time T after its JoinGroup response."
LEAVES_POLL_FOR_AN_ASSIGNMENT: Final = (
    "A member of the consumer protocol with the fault slow-join is outside poll() after an assignment alone."
)
DOUBLES_ONE_PARTITION: Final = (
    "A leader with the fault assignor-doubles assigns the first partition of one member to another one as well."
)
READS_AS_CONFIGURED: Final = "A member reads records with the isolation level of its settings."
JOINS_AS_CONFIGURED: Final = (
    "A member joins with the session timeout, the assignors and the instance id of its settings, and with their "
    "max.poll.interval.ms as its rebalance timeout."
)
PLANNED_SENTENCES: Final = (
    *(FAULTS_ARE_REPORTED, SYNCS_LATE, LEAVES_POLL_FOR_AN_ASSIGNMENT),
    *(DOUBLES_ONE_PARTITION, READS_AS_CONFIGURED, JOINS_AS_CONFIGURED),
)
LASTING: Final = frozenset(
    {
        *(MemberFaultKind.SLOW_JOIN, MemberFaultKind.SLOW_REVOKE, MemberFaultKind.SLOW_SYNC),
        *(MemberFaultKind.NEVER_SYNC, MemberFaultKind.ASSIGNOR_FAILS),
        *(MemberFaultKind.ASSIGNOR_FORGETS, MemberFaultKind.ASSIGNOR_DOUBLES),
    }
)
"""The faults that last: those that change what a member does from then on."""
AWAY_FOR_OTHER_REASONS: Final = frozenset({MemberFaultKind.SLOW_REVOKE, MemberFaultKind.NO_POLL})
"""Faults that keep an application outside poll(), whatever the member is assigned."""
ROUNDING_MS: Final = 2
"""The clock of members and that of the run are rounded in different ways."""


@dataclass(slots=True)
class _Planned:
    """One member: what its plan says, and what its process has shown."""

    unreported: set[MemberFaultKind]
    """Faults that begin with its first process, and that it has not reported."""
    isolation_level: int
    settings: ConsumerSettings | None
    """None if it is not known with which settings it joins."""
    is_stranger: bool = False
    """Whether it has lost its instance id with a restart."""
    slow_sync_ms: int = 0
    slow_to_join: bool = False
    doubles_since_ms: int | None = None
    """When the fault assignor-doubles began; None if it has not."""
    is_away_for_other_reasons: bool = False
    joined_ms: dict[tuple[int, str], int] = field(default_factory=dict)
    """By generation id and member id, when the process got the JoinGroup response."""
    heartbeats: list[tuple[int, bool]] = field(default_factory=list)
    """The last responses to heartbeats of the consumer protocol: when each came, and whether it has an assignment."""


class PlannedMembers:
    """The members of a run, by name. `now_ms` is the time of the run."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._members: dict[str, _Planned] = {}

    def add_member(
        self,
        name: str,
        faults: Collection[MemberFault],
        *,
        reads_committed: bool,
        settings: ConsumerSettings | None = None,
    ) -> None:
        """Begin to check a member with these faults and settings; one that took part before begins again."""
        at_start = {each.kind for each in faults if each.kind in LASTING and each.effective_trigger == FaultTrigger()}
        self._members[name] = _Planned(at_start, int(reads_committed), settings)

    def on_new_life(self, name: str) -> None:
        """Forget what the process of a member has shown: it has ended. Lasting faults go on in the next one."""
        if member := self._members.get(name):
            member.joined_ms.clear()
            member.heartbeats.clear()

    def on_note(self, name: str, note: MemberNote) -> None:
        """Take note of a fault that begins."""
        member = self._members.get(name)
        if member is None or not isinstance(note, FaultBegan):
            return
        kind = note.fault.kind
        member.unreported.discard(kind)
        if kind is MemberFaultKind.SLOW_SYNC:
            member.slow_sync_ms = note.fault.duration_ms or 0
        if kind is MemberFaultKind.ASSIGNOR_DOUBLES and member.doubles_since_ms is None:
            member.doubles_since_ms = self._now_ms()
        member.is_stranger |= kind is MemberFaultKind.RESTART_AS_STRANGER
        member.slow_to_join |= kind is MemberFaultKind.SLOW_JOIN
        member.is_away_for_other_reasons |= kind in AWAY_FOR_OTHER_REASONS

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check what a member sends by its plan."""
        member = self._members.get(name)
        if member is None:
            return None
        if member.unreported:
            kind = min(member.unreported, key=lambda each: each.value)
            member.unreported.discard(kind)
            return MemberViolation(FAULTS_ARE_REPORTED, f"{name} has not reported {kind.value}")
        match message:
            case JoinGroupRequest() | ConsumerGroupHeartbeatRequest() if member.settings is not None:
                return _check_join(name, message, member.settings, is_stranger=member.is_stranger)
            case SyncGroupRequest():
                joined_ms = member.joined_ms.get((message.generation_id, message.member_id))
                return None if joined_ms is None else self._check_sync(name, member, message, joined_ms)
            case FetchRequest() | ListOffsetsRequest():
                member.is_away_for_other_reasons = True  # it processes records
                if message.isolation_level != member.isolation_level:
                    detail = f"{name} reads with {message.isolation_level}, and not with {member.isolation_level}"
                    return MemberViolation(READS_AS_CONFIGURED, detail)
        return None

    def _check_sync(
        self, name: str, member: _Planned, message: SyncGroupRequest, joined_ms: int
    ) -> MemberViolation | None:
        after_ms = self._now_ms() - joined_ms
        if after_ms < member.slow_sync_ms - ROUNDING_MS:
            detail = f"{name} sends SyncGroup after {after_ms} ms, and not after {member.slow_sync_ms} ms"
            return MemberViolation(SYNCS_LATE, detail)
        # A request that slow-sync delays may be older than the fault; one of a later generation is not.
        if member.doubles_since_ms is None or member.doubles_since_ms >= joined_ms or _doubles_a_partition(message):
            return None
        return MemberViolation(DOUBLES_ONE_PARTITION, f"{name} assigns the first partition of no member twice")

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note when a generation or an assignment comes; None for a request that has failed."""
        member = self._members.get(name)
        if member is None:
            return
        if isinstance(response, JoinGroupResponse) and response.error_code == ErrorCode.NONE:
            # A second JoinGroup of one generation may be answered before the SyncGroup of the first is sent.
            member.joined_ms.setdefault((response.generation_id, response.member_id), self._now_ms())
        elif isinstance(response, ConsumerGroupHeartbeatResponse):
            member.heartbeats = [*member.heartbeats[-3:], (self._now_ms(), response.assignment is not None)]

    def on_request_outside_poll(self, name: str, message: Message, outside_poll_ms: int) -> MemberViolation | None:
        """Check why the application of a member that sends a heartbeat has left poll(), `outside_poll_ms` ago."""
        member = self._members.get(name)
        if member is None or not member.slow_to_join or member.is_away_for_other_reasons:
            return None
        left_ms = self._now_ms() - outside_poll_ms
        before = [each for each in member.heartbeats if each[0] <= left_ms + ROUNDING_MS]
        # Of responses within the rounding, each may be the one after which it left.
        last = [each for each in before if each[0] >= left_ms - ROUNDING_MS] or before[-1:]
        if not isinstance(message, ConsumerGroupHeartbeatRequest) or not last or any(assigned for _, assigned in last):
            return None
        detail = f"{name} has left poll() {outside_poll_ms} ms ago, after a heartbeat without an assignment"
        return MemberViolation(LEAVES_POLL_FOR_AN_ASSIGNMENT, detail)


def _check_join(
    name: str,
    message: JoinGroupRequest | ConsumerGroupHeartbeatRequest,
    settings: ConsumerSettings,
    *,
    is_stranger: bool,
) -> MemberViolation | None:
    """Compare what a member says of itself with its settings: in JoinGroup, or in a heartbeat of the consumer protocol,
    which leaves out what has not changed unless it joins."""
    instance_id = None if is_stranger else settings.group_instance_id
    planned: tuple[object, ...]
    said: tuple[object, ...]
    if isinstance(message, JoinGroupRequest):
        planned = settings.session_timeout_ms, settings.max_poll_interval_ms, settings.partition_assignment_strategy
        said = message.session_timeout_ms, message.rebalance_timeout_ms, tuple(each.name for each in message.protocols)
        said_instance_id = message.group_instance_id
    elif message.member_epoch == 0 or message.rebalance_timeout_ms != -1:
        planned = settings.max_poll_interval_ms, settings.group_remote_assignor
        said, said_instance_id = (message.rebalance_timeout_ms, message.server_assignor), message.instance_id
    else:
        return None
    if (*said, said_instance_id) == (*planned, instance_id):
        return None
    detail = f"{name} joins with {(*said, said_instance_id)}, and its settings are {(*planned, instance_id)}"
    return MemberViolation(JOINS_AS_CONFIGURED, detail)


def _doubles_a_partition(message: SyncGroupRequest) -> bool:
    """Whether a leader's SyncGroup assigns the first partition of one member to another member as well.

    True if there is nothing to assign twice: fewer than two members, or no partitions.
    """
    lists = [decode_assignment(each.assignment).partitions for each in message.assignments]
    if len(lists) < 2 or not any(lists):
        return True
    return any(
        each[0] in other for place, each in enumerate(lists) if each for other in lists[:place] + lists[place + 1 :]
    )
