"""The transcript of a story: one line for each request and its response."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from regroup.conformance.harness.message_types import api_name
from regroup.conformance.harness.sent_request import StoryExchange
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import JoinGroupResponse

MAX_FIELD_LENGTH = 200


def transcript_lines(exchanges: Sequence[StoryExchange]) -> Iterator[str]:
    """A line for each exchange, in the order of the requests, with names in place of member ids.

    Of equal DescribeGroups exchanges in a row only the first one is shown.
    """
    names = _member_names(exchanges)
    previous = ""
    for each in exchanges:
        response = _fields(each.response) if each.response is not None else each.failure or "no response"
        line = f"{each.sender}: {api_name(each.request)} v{each.version} {_fields(each.request)} -> {response}"
        for member_id, name in names.items():
            line = line.replace(member_id, f"<{name}>")
        if each.sender != "observer" or line != previous:
            yield f"{each.sent_at_s:7.3f} s  {line}"
        previous = line


def _member_names(exchanges: Sequence[StoryExchange]) -> dict[str, str]:
    """The name of the member for each member id. Further ids of the same member get numbers."""
    names: dict[str, str] = {}
    for each in exchanges:
        match each.response:
            case JoinGroupResponse(error_code=ErrorCode.NONE | ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id):
                if member_id not in ("", *names):
                    earlier = sum(name.split(" ")[0] == each.sender for name in names.values())
                    names[member_id] = f"{each.sender} {earlier + 1}" if earlier else each.sender
    return names


def _fields(message: Message) -> str:
    """The fields of a message with their values, each shortened, bytes as text where they are text."""
    fields = msgspec.structs.asdict(message)
    fields.pop("throttle_time_ms", None)
    return ", ".join(f"{name}={_text(value, name)[:MAX_FIELD_LENGTH]}" for name, value in fields.items())


def _text(value: Any, name: str = "") -> str:
    if name == "error_code":
        return ErrorCode.name_of(value)
    if isinstance(value, bytes):
        return repr(value)[1:]
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, msgspec.Struct):
        return "{" + ", ".join(f"{name}={_text(each)}" for name, each in msgspec.structs.asdict(value).items()) + "}"
    return repr(value)
