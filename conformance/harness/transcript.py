"""What was said in a story, one line a request: who, what, and what came."""

from collections.abc import Iterator, Sequence

import msgspec

from regroup.conformance.harness.connection import api_name
from regroup.conformance.harness.pending import Exchange
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import JoinGroupResponse

LONGEST_FIELD = 200


def written(exchanges: Sequence[Exchange]) -> Iterator[str]:
    """The transcript in the order of the requests; looking at the group again and again is told once."""
    names = _names(exchanges)
    previous = ""
    for each in exchanges:
        said = f"{each.speaker}: {api_name(each.request)} v{each.version} {fields_of(each.request)} -> {_outcome(each)}"
        for member_id, name in names.items():
            said = said.replace(member_id, f"<{name}>")
        if each.speaker == "observer" and said == previous:
            continue
        previous = said
        yield f"{each.at:7.3f} s  {said}"


def _names(exchanges: Sequence[Exchange]) -> dict[str, str]:
    """Who got which member id; a second id of the same member is told apart."""
    names: dict[str, str] = {}
    for each in exchanges:
        answer = each.answer
        if (
            isinstance(answer, JoinGroupResponse)
            and answer.member_id not in ("", *names)
            and answer.error_code in _GIVEN
        ):
            again = sum(name.split(" ")[0] == each.speaker for name in names.values())
            names[answer.member_id] = f"{each.speaker} {again + 1}" if again else each.speaker
    return names


_GIVEN = (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)


def _outcome(exchange: Exchange) -> str:
    if exchange.answer is not None:
        return fields_of(exchange.answer)
    return exchange.failure or "no answer"


def fields_of(message: Message) -> str:
    """The fields that say something, bytes as text where they are text."""
    shown = []
    for field, value in msgspec.structs.asdict(message).items():
        if field == "throttle_time_ms":
            continue
        text = ErrorCode.named(value) if field == "error_code" else _text(value)
        shown.append(f"{field}={text[:LONGEST_FIELD]}")
    return ", ".join(shown)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return repr(value)[1:]
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, msgspec.Struct):
        return "{" + ", ".join(f"{name}={_text(each)}" for name, each in msgspec.structs.asdict(value).items()) + "}"
    return repr(value)
