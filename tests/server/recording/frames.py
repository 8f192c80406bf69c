"""Frames of requests and responses, and a clock that a test sets."""

from regroup.protocol.frames import encode_request, encode_response
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse

HOST = "/127.0.0.1"


def frame(request: Message, version: int, correlation_id: int = 1, client_id: str = "anna") -> bytes:
    return encode_request(RequestHeader(request.api_key, version, correlation_id, client_id), request)[4:]


def heartbeat(correlation_id: int = 1, member_id: str = "anna-1") -> bytes:
    return frame(HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id), 3, correlation_id)


def accepted(correlation_id: int = 1, error_code: int = 0) -> bytes:
    return encode_response(HeartbeatRequest.api_key, 3, correlation_id, HeartbeatResponse(error_code=error_code))


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms
