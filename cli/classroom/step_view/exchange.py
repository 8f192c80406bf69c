"""A recorded request and its response: one heading, the fields in a line, and all of it as JSON."""

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from regroup.classroom.languages import Language
from regroup.classroom.phrases.known_texts import REASON, known_text
from regroup.classroom.phrases.phrase import PhraseValue, in_language, phrase
from regroup.classroom.recorded.messages import ExchangeMessages
from regroup.classroom.recorded_values import ExchangeFate, TimelineExchange
from regroup.classroom.sentences import assigned_text
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


def heading(exchange: TimelineExchange, language: Language) -> str:
    """A line about a request and its response: `JoinGroup v9 of anna, NONE after 3 s`."""
    run = f" x{exchange.count}" if exchange.count > 1 else ""
    said = phrase("step heading", api=exchange.api, version=exchange.version, run=run, member=_client(exchange))
    text = in_language(said, language)
    if exchange.answered_at_ms is not None:
        after = duration_text(max(0, exchange.answered_at_ms - exchange.at_ms))
        text += in_language(phrase("step heading answered", error=exchange.error, length=after), language)
    if exchange.fate is not ExchangeFate.ANSWERED:
        text += f", {exchange.fate}"
    return f"{text}: {exchange.reason}" if exchange.reason else text


def _client(exchange: TimelineExchange) -> PhraseValue:
    return exchange.client_id or phrase("client without a name")


def message_sentence(stop: MessageStop, language: Language) -> str:
    """A sentence about a request or response: `JoinGroup of anna came.`"""
    exchange = stop.exchange
    because = phrase("because", reason=known_text(exchange.reason, REASON)) if exchange.reason else ""
    if stop.is_response:
        said = phrase(
            "step answered and lost" if exchange.fate is ExchangeFate.RESPONSE_LOST else "step answered",
            api=exchange.api,
            member=_client(exchange),
            error=exchange.error,
            length=duration_text(max(0, stop.at_ms - exchange.at_ms)),
            because=because,
        )
    else:
        key = "step sent and lost" if exchange.arrived_at_ms is None else "step came"
        said = phrase(key, api=exchange.api, member=_client(exchange), because=because)
    return in_language(said, language)


def led_to(exchange: TimelineExchange, language: Language) -> str:
    """A text with the positions of the events to which a request led."""
    if not exchange.events:
        return in_language(phrase("step led to no event"), language)
    first, last = exchange.events[0], exchange.events[-1]
    key = "step led to event" if first == last else "step led to events"
    return in_language(phrase(key, first=first, last=last), language)


def request_line(
    exchange: TimelineExchange,
    messages: ExchangeMessages | None,
    names: MemberNames,
    language: Language,
    came_ms: int,
) -> str:
    """A line with a request's time and fields; empty fields, and those shown elsewhere, are left out.

    `came_ms` is the time of the request; in a run of heartbeats, that of the heartbeat to show.
    """
    request = messages.request if messages else None
    fields = _line_of(request, names)
    return in_language(phrase("step request line", time=clock_time(came_ms), fields=fields), language)


def response_line(
    exchange: TimelineExchange,
    messages: ExchangeMessages | None,
    names: MemberNames,
    language: Language,
    came_ms: int,
) -> str:
    """A line with a response's time and fields; empty fields, and those shown elsewhere, are left out.

    `came_ms` is the time of the request. In a run of heartbeats only the first response has a recorded time.
    """
    if exchange.answered_at_ms is None:
        return in_language(phrase("step no response"), language)
    response = messages.response if messages else None
    fields = _line_of(response, names)
    is_known = came_ms == exchange.at_ms
    time = clock_time(exchange.answered_at_ms) if is_known else ""
    return in_language(phrase("step response line", time=time, fields=fields), language).lstrip()


def _line_of(message: Any, names: MemberNames) -> str:
    if not isinstance(message, dict):
        return NOT_KEPT
    return " ".join(f"{name}={text}" for name, text in _fields(decoded(message), names)) or "without fields"


def _fields(values: Mapping[str, Any], names: MemberNames) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if name not in SHOWN_ELSEWHERE and (value not in NOTHING or (name in NUMBERS and value == 0)):
            yield name, _value(value, names)


def _value(value: Any, names: MemberNames) -> str:
    """The value of a field as short text, in which names replace member ids."""
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
    """The exchange with its messages as JSON on several lines, with decoded subscriptions and assignments."""
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
    """The fields of a message, in which subscriptions and assignments are decoded from base64."""
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
