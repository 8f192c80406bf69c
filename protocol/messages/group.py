"""The classic group protocol: join, synchronise, beat, leave."""

from typing import Annotated

from regroup.protocol.fields import Bool, Bytes, Int16, Int32, Text, ignorable, nullable, since, until
from regroup.protocol.message import Message, Structure


class JoinGroupRequestProtocol(Structure):
    """One assignor that the member could work with, and its subscription in that assignor's form."""

    name: Text
    metadata: Bytes


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    """A member asks to be in the next generation.

    v4 answers with an id first (KIP-394), v5 static members (KIP-345), v8 says why (KIP-800), v9 may be told to skip
    the assignment (KIP-814).
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
    """What the leader learns about each member."""

    member_id: Text
    group_instance_id: Annotated[Text | None, since(5), ignorable] = None
    metadata: Bytes


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    """A generation begins. Only the leader is told the members. Before v7 `protocol_name` may not be null (KIP-559)."""

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
    """What the leader gives to one member."""

    member_id: Text
    assignment: Bytes


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """A member asks for its share; the leader's request carries everyone's. v3 KIP-345, v5 KIP-559."""

    group_id: Text
    generation_id: Int32
    member_id: Text
    group_instance_id: Annotated[Text | None, since(3)] = None
    protocol_type: Annotated[Text | None, since(5), ignorable] = None
    protocol_name: Annotated[Text | None, since(5), ignorable] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    """The member's share."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[Text | None, since(5), ignorable] = None
    protocol_name: Annotated[Text | None, since(5), ignorable] = None
    assignment: Bytes = b""


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    """I am alive, and I believe this generation is the current one. v3 KIP-345."""

    group_id: Text
    generation_id: Int32
    member_id: Text
    group_instance_id: Annotated[Text | None, since(3)] = None


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    """Code 0: nothing new. 27: join again."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0


class MemberIdentity(Structure):
    """One member that leaves; a static member may be named by its instance id alone."""

    member_id: Text
    group_instance_id: Annotated[Text | None, since(3)] = None
    reason: Annotated[Text | None, since(5), ignorable] = None


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    """Up to v2 one member leaves; since v3 several may be removed at once (KIP-345). v5 says why (KIP-800)."""

    group_id: Text
    member_id: Annotated[Text, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = []


class MemberResponse(Structure):
    """What became of one leaving member."""

    member_id: Text
    group_instance_id: Text | None = None
    error_code: Int16 = 0


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    """The top code speaks of the request; since v3 each member has its own as well."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], since(3)] = []
