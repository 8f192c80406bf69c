"""Members of one group of the classic protocol, each with a connection of its own, for `to_stable.py`.

A member sends a heartbeat once an interval when it is in a generation, and rejoins as soon as a rebalance has begun.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

REJOIN_ERRORS: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
RETRIED: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
ASSIGNMENT: Final = bytes(60)


class ClassicMember(asyncio.Protocol):
    """A member: it sends JoinGroup v5, again with the member id from the response, SyncGroup v3 and Heartbeat v3."""

    def __init__(self, group: "ClassicGroup") -> None:
        self.group = group
        self.member_id, self.generation_id = "", -1
        self.has_assignment = self.has_left = False
        self.reader = FrameReader()
        self.pending_request: Message | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            request, self.pending_request = self.pending_request, None
            assert request is not None
            response = decode_response(request.api_key, VERSIONS[type(request)], frame)[1]
            if not self.has_left or isinstance(response, LeaveGroupResponse):
                RESPONSE_HANDLERS[type(response)](self, response)

    def send(self, request: Message) -> None:
        """Send one request. The next one follows when its response has arrived."""
        self.group.exchanges += 1
        self.pending_request = request
        self.transport.write(
            encode_request(RequestHeader(request.api_key, VERSIONS[type(request)], 1, "bench"), request)
        )

    def join(self) -> None:
        self.has_assignment = False
        self.send(
            JoinGroupRequest(
                group_id=self.group.group_id,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(6) + b"\xff" * 4)],
            )
        )

    def on_join_group(self, response: JoinGroupResponse) -> None:
        self.member_id = response.member_id
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.join()
            return
        if response.error_code in RETRIED:
            asyncio.get_running_loop().call_later(0.1, self.join)
            return
        assert not response.error_code, ErrorCode(response.error_code)
        self.generation_id = response.generation_id
        self.send(
            SyncGroupRequest(
                group_id=self.group.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member.member_id, assignment=ASSIGNMENT)
                    for member in response.members
                ],
            )
        )

    def on_sync_group(self, response: SyncGroupResponse) -> None:
        if response.error_code in REJOIN_ERRORS:
            self.join()
            return
        assert response.assignment == ASSIGNMENT, ErrorCode(response.error_code)
        self.has_assignment = True
        self.group.note(self)
        self.schedule_heartbeat()

    def on_heartbeat(self, response: HeartbeatResponse) -> None:
        if response.error_code in REJOIN_ERRORS:
            self.join()
        else:
            self.schedule_heartbeat()

    def schedule_heartbeat(self) -> None:
        asyncio.get_running_loop().call_later(self.group.interval_s, self.send_heartbeat)

    def send_heartbeat(self) -> None:
        if not self.has_left:
            self.send(
                HeartbeatRequest(
                    group_id=self.group.group_id, generation_id=self.generation_id, member_id=self.member_id
                )
            )

    def leave(self) -> None:
        """Send LeaveGroup, after which the member is silent."""
        self.has_left = True
        self.send(LeaveGroupRequest(group_id=self.group.group_id, member_id=self.member_id))

    def on_leave_group(self, response: LeaveGroupResponse) -> None:
        assert not response.error_code, ErrorCode(response.error_code)


VERSIONS = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3, LeaveGroupRequest: 2}
RESPONSE_HANDLERS: dict[type[Message], Callable[..., None]] = {
    JoinGroupResponse: ClassicMember.on_join_group,
    SyncGroupResponse: ClassicMember.on_sync_group,
    HeartbeatResponse: ClassicMember.on_heartbeat,
    LeaveGroupResponse: ClassicMember.on_leave_group,
}


class ClassicGroup:
    """All members of one group. It is Stable when each has an assignment of the same generation."""

    def __init__(self, group_id: str, interval_s: float) -> None:
        self.group_id, self.interval_s = group_id, interval_s
        self.exchanges = 0
        self.members: list[ClassicMember] = []
        self._assigned: dict[ClassicMember, int] = {}
        self._generation_id = 0
        self._stable: asyncio.Future[None] | None = None

    async def converge(self, begin: Callable[[], object]) -> None:
        """Begin something that makes the group rebalance, and wait until it is Stable again."""
        self._stable = asyncio.get_running_loop().create_future()
        begin()
        await self._stable

    def note(self, member: ClassicMember) -> None:
        """Count an assignment of the newest generation."""
        if member.generation_id > self._generation_id:
            self._generation_id = member.generation_id
            self._assigned.clear()
        if member.generation_id == self._generation_id:
            self._assigned[member] = member.generation_id
        if len(self._assigned) == len(self.members) and self._stable and not self._stable.done():
            self._stable.set_result(None)

    def begin(self) -> None:
        for member in self.members:
            member.join()

    def one_leaves(self) -> None:
        member = self.members.pop()
        self._assigned.clear()
        member.leave()

    def close(self) -> None:
        for member in self.members:
            member.has_left = True
            member.transport.abort()
