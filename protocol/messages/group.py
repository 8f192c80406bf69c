"""Messages of the classic group protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from typing import Annotated

from regroup.protocol.fields import Bool, Bytes, Int16, Int32, Text, ignorable, nullable, since, until
from regroup.protocol.message import Message, Structure

__all__ = [
    "JoinGroupRequestProtocol",
    "JoinGroupRequest",
    "JoinGroupResponseMember",
    "JoinGroupResponse",
    "SyncGroupRequestAssignment",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "MemberIdentity",
    "LeaveGroupRequest",
    "MemberResponse",
    "LeaveGroupResponse",
]


class JoinGroupRequestProtocol(Structure):
    """One supported protocol: an assignor's name, and the subscription as bytes."""

    name: Text
    metadata: Bytes


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    """Asks to be a member of the group's next generation.

    v4 returns a member id first (KIP-394), v5 adds static members (KIP-345), v8 a reason (KIP-800), and with v9 the
    leader may be asked to skip the assignment (KIP-814).
    """

    group_id: Text
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, since(1), ignorable] = -1
    member_id: Text = ""
    group_instance_id: Annotated[Text | None, since(5)] = None
    protocol_type: Text
    protocols: list[JoinGroupRequestProtocol]
    reason: Annotated[Text | None, since(8), ignorable] = None


class JoinGroupResponseMember(Structure):
    """One member and its subscription, in the list of members that the leader gets."""

    member_id: Text
    group_instance_id: Annotated[Text | None, since(5), ignorable] = None
    metadata: Bytes


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    """The new generation; only the leader gets `members`. Until v6 `protocol_name` cannot be null (KIP-559)."""

    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[Text | None, since(7), ignorable] = None
    protocol_name: Annotated[Text | None, nullable(7)] = ""
    leader: Text = ""
    skip_assignment: Annotated[Bool, since(9)] = False
    member_id: Text
    members: list[JoinGroupResponseMember] = []


class SyncGroupRequestAssignment(Structure):
    """The assignment of one member, computed by the leader."""

    member_id: Text
    assignment: Bytes


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """Asks for the member's assignment; the leader's request carries all assignments. v3 adds the instance id
    (KIP-345), v5 the protocol type and name (KIP-559)."""

    group_id: Text
    generation_id: Int32
    member_id: Text
    group_instance_id: Annotated[Text | None, since(3)] = None
    protocol_type: Annotated[Text | None, since(5), ignorable] = None
    protocol_name: Annotated[Text | None, since(5), ignorable] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    """The assignment of the member that sent the SyncGroup request, or an error code."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[Text | None, since(5), ignorable] = None
    protocol_name: Annotated[Text | None, since(5), ignorable] = None
    assignment: Bytes = b""


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    """Renews the member's session, and asks whether its generation is still the current one. v3 adds the instance id
    (KIP-345)."""

    group_id: Text
    generation_id: Int32
    member_id: Text
    group_instance_id: Annotated[Text | None, since(3)] = None


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    """Error code 0 means that the member's generation is current, 27 that a rebalance is in progress and the member is
    to join again."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0


class MemberIdentity(Structure):
    """A member that a LeaveGroup request removes; a static member may be named by its instance id alone."""

    member_id: Text
    group_instance_id: Annotated[Text | None, since(3)] = None
    reason: Annotated[Text | None, since(5), ignorable] = None


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    """Removes one member up to v2, several since v3 (KIP-345). v5 adds a reason (KIP-800)."""

    group_id: Text
    member_id: Annotated[Text, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = []


class MemberResponse(Structure):
    """The error code of one member that was to be removed."""

    member_id: Text
    group_instance_id: Text | None = None
    error_code: Int16 = 0


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    """An error code for the request, and since v3 one for each member."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], since(3)] = []
