"""A recorded request and its response: one heading, the fields in a line, and all of it as JSON."""

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from regroup.classroom.recorded.messages import ExchangeMessages
from regroup.classroom.sentences import assigned_text
from regroup.classroom.timeline import ExchangeFate, TimelineExchange
from regroup.classroom.walking import MessageStop
from regroup.classroom.wording import MemberNames, partitions_text
from regroup.cli.store.events_text import clock_time
from regroup.cli.terminal.text import printable_json
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_subscription
from regroup.server.explanation.sentences import counted, duration_text

NOTHING: Final[tuple[Any, ...]] = (None, "", [], {}, -1, False)
"""Values that a line leaves out: they say that there is none. 0 counts as False, except in NUMBERS."""
NUMBERS: Final = {"partition_index", "committed_offset", "offset"}
SHOWN_ELSEWHERE: Final = {"group_id", "protocol_type", "throttle_time_ms", "error_message", "topic_id"}
"""Fields that a line leaves out: the screen has them, or they say little."""
CONSUMER_BYTES: Final = {"metadata", "assignment"}
"""Fields of JoinGroup and SyncGroup in which consumers encode subscriptions and assignments."""
NOT_KEPT: Final = "not kept, or not decodable"


def heading(exchange: TimelineExchange) -> str:
    """`JoinGroup v9 of anna, NONE after 3 s`."""
    run = f" x{exchange.count}" if exchange.count > 1 else ""
    text = f"{exchange.api} v{exchange.version}{run} of {exchange.client_id or 'a client without a name'}"
    if exchange.answered_at_ms is not None:
        text += f", {exchange.error} after {duration_text(max(0, exchange.answered_at_ms - exchange.at_ms))}"
    if exchange.fate is not ExchangeFate.ANSWERED:
        text += f", {exchange.fate}"
    return f"{text}: {exchange.reason}" if exchange.reason else text


def message_sentence(stop: MessageStop) -> str:
    """`JoinGroup of anna came.`, `The coordinator answered SyncGroup of ben with NONE, after 3 s.`"""
    exchange = stop.exchange
    what = f"{exchange.api} of {exchange.client_id or 'a client without a name'}"
    because = f": {exchange.reason}" if exchange.reason else ""
    if stop.is_response:
        after = duration_text(max(0, stop.at_ms - exchange.at_ms))
        lost = f"; the response was lost{because}" if exchange.fate is ExchangeFate.RESPONSE_LOST else ""
        return f"The coordinator answered {what} with {exchange.error}, after {after}{lost}."
    return f"{what} {'was sent and lost' + because if exchange.arrived_at_ms is None else 'came'}."


def led_to(exchange: TimelineExchange) -> str:
    """To which events a request led, by their positions."""
    if not exchange.events:
        return "led to no event"
    first, last = exchange.events[0], exchange.events[-1]
    return (
        f"led to the event at position {first}"
        if first == last
        else f"led to the events at positions {first} to {last}"
    )


def request_line(exchange: TimelineExchange, messages: ExchangeMessages | None, names: MemberNames) -> str:
    """The fields of the request that say something, after the time at which it came."""
    request = messages.request if messages else None
    return f"{clock_time(exchange.at_ms)} request {_line_of(request, names)}"


def response_line(exchange: TimelineExchange, messages: ExchangeMessages | None, names: MemberNames) -> str:
    """The fields of the response that say something, after the time at which it was sent."""
    if exchange.answered_at_ms is None:
        return "no response was sent"
    response = messages.response if messages else None
    return f"{clock_time(exchange.answered_at_ms)} response {_line_of(response, names)}"


def _line_of(message: Any, names: MemberNames) -> str:
    if not isinstance(message, dict):
        return NOT_KEPT
    return " ".join(f"{name}={text}" for name, text in _fields(decoded(message), names)) or "without fields"


def _fields(values: Mapping[str, Any], names: MemberNames) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if name not in SHOWN_ELSEWHERE and (value not in NOTHING or (name in NUMBERS and value == 0)):
            yield name, _value(value, names)


def _value(value: Any, names: MemberNames) -> str:
    """A value in the fewest words; names stand in place of member ids."""
    match value:
        case dict():
            return "{" + " ".join(f"{name}={text}" for name, text in _fields(value, names)) + "}"
        case list():
            return "[" + ", ".join(_value(each, names) for each in value) + "]"
        case str():
            return names[value]
        case _:
            return str(value)


def exchange_json(exchange: TimelineExchange, messages: ExchangeMessages | None) -> str:
    """The whole exchange on several lines; subscriptions and assignments are decoded."""
    row = {
        "api": exchange.api,
        "version": exchange.version,
        "client_id": exchange.client_id,
        "connection": exchange.connection,
        "correlation_id": exchange.correlation_id,
        "count": exchange.count,
        "came": f"{clock_time(exchange.at_ms)} UTC",
        "answered": f"{clock_time(exchange.answered_at_ms)} UTC" if exchange.answered_at_ms is not None else None,
        "error": exchange.error,
        "fate": exchange.fate,
        "reason": exchange.reason,
        "led_to_positions": exchange.events,
        "request": decoded(messages.request) if messages and messages.request else NOT_KEPT,
        "response": decoded(messages.response) if messages and messages.response else NOT_KEPT,
    }
    return printable_json(json.dumps(row, indent=2, ensure_ascii=False))


def decoded(message: dict[str, Any]) -> dict[str, Any]:
    """The fields of a message; base64 that holds a subscription or an assignment is decoded."""
    return {name: _decoded(name, value) for name, value in message.items()}


def _decoded(name: str, value: Any) -> Any:
    match value:
        case dict():
            return decoded(value)
        case list():
            return [_decoded(name, each) for each in value]
        case str() if name in CONSUMER_BYTES:
            try:
                return _consumer_value(name, b64decode(value, validate=True))
            except binascii.Error:
                return value
        case _:
            return value


def _consumer_value(name: str, data: bytes) -> Any:
    if name == "assignment":
        return assigned_text(data)
    try:
        subscription = decode_subscription(data)
    except MalformedConsumerProtocol:
        return counted(len(data), "byte")
    owned = {"owned": partitions_text(subscription.owned_partitions)} if subscription.owned_partitions else {}
    return {"topics": list(subscription.topics), **owned}
