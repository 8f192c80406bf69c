"""What a member reports beside the changes of its consumer: refused requests, and faults that begin and end."""

from dataclasses import dataclass
from typing import TypeAlias

from regroup.members.faults import MemberFault
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.offsets import OffsetCommitResponse, OffsetFetchResponse


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """A broker has responded to a request of the member with an error code."""

    api: str
    """Kafka's name of the API, such as `OffsetCommit`."""
    error: str
    """Kafka's name of the error code, such as `UNKNOWN_MEMBER_ID`."""


@dataclass(frozen=True, slots=True)
class FaultBegan:
    """A fault of the member begins now."""

    fault: MemberFault


@dataclass(frozen=True, slots=True)
class FaultEnded:
    """A member that was paused or restarting goes on.

    A `zombie` goes on with the generation that it had before its pause.
    """

    condition: str


MemberNote: TypeAlias = RequestRefused | FaultBegan | FaultEnded


def refusal_in(response: Message) -> tuple[RequestRefused, int] | None:
    """The RequestRefused for a response with an error, and the error code.

    None for a success, and for MEMBER_ID_REQUIRED, which every new member gets (KIP-394).
    """
    code = error_code_of(response)
    if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
        return None
    return RequestRefused(APIS[type(response).api_key].name, ErrorCode.name_of(code)), code


def error_code_of(response: Message) -> int:
    """The error code of a response to a consumer, 0 for none; of an OffsetCommit response the first error of its
    partitions, of an OffsetFetch response that of its group."""
    if isinstance(response, OffsetCommitResponse):
        codes = (each.error_code for topic in response.topics for each in topic.partitions)
        return next(filter(None, codes), 0)
    if isinstance(response, OffsetFetchResponse) and response.groups:
        return response.groups[0].error_code
    return int(getattr(response, "error_code", 0))
