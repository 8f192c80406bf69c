"""Events as JSON for people: what consumers put into group messages is decoded, and member ids stand in a table."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from regroup.classroom.page.columns import StringTable
from regroup.classroom.timeline import TimelineMoment
from regroup.coordinator import events as e
from regroup.coordinator.consumer.events import MemberReconciled
from regroup.coordinator.events import Event
from regroup.coordinator.group import MemberId
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    TopicPartition,
    decode_assignment,
    decode_subscription,
)

HAVE_BYTES: Final = (e.AssignmentWritten, e.MemberJoined, e.MemberRejoined, e.StaticMemberReplaced)
"""The events with subscriptions and assignments."""
REFERENCE: Final = "\x01"
"""Begins a string that stands for an entry of the string table: its number follows, in decimal digits."""
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_TIME: Final = re.compile(rb'^\{"at_ms":\d+,?')


class EventTexts:
    """Writes events and causes as JSON without times, with numbers of a string table in place of member ids."""

    def __init__(self, member_ids: list[MemberId], strings: StringTable, topic_names: Mapping[str, str]) -> None:
        self._references: Mapping[bytes, bytes] = {
            msgspec.json.encode(each): b'"\\u0001%d"' % strings(each) for each in member_ids
        }
        self._strings = strings
        self._topic_names = topic_names
        shortest = min((len(each) - 2 for each in self._references), default=0)
        self._may_have_references = re.compile(rb'[^"]{%d}|\\u0001' % max(1, shortest))

    def event(self, moment: TimelineMoment) -> str:
        """The event of a moment as JSON."""
        value: Any = moment.event
        if isinstance(value, HAVE_BYTES):
            value = _readable(value)
        elif isinstance(value, MemberReconciled):
            value = self._with_topic_names(value)
        return self._with_references(_TIME.sub(b"{", msgspec.json.encode(value)))

    def _with_topic_names(self, event: MemberReconciled) -> Any:
        """The fields of the event, in which each topic id has the topic's name before it."""
        value = msgspec.to_builtins(event, str_keys=True)
        for field in ("assigned", "pending_revocation"):
            found = value.get(field, {})
            value[field] = {
                f"{name} {each}" if (name := self._topic_names.get(each)) else each: found[each] for each in found
            }
        return value

    def cause(self, moment: TimelineMoment) -> str:
        """The cause of a moment's event as JSON; empty if the store has no cause for it."""
        return "" if moment.cause is None else self._with_references(msgspec.json.encode(moment.cause))

    def _with_references(self, encoded: bytes) -> str:
        # Most causes have no string that is as long as a member id.
        if not self._may_have_references.search(encoded):
            return encoded.decode()
        return _STRING.sub(self._reference, encoded).decode()

    def _reference(self, match: re.Match[bytes]) -> bytes:
        found = self._references.get(match[0])
        if found is None and match[0].startswith(b'"\\u0001'):  # a client's own text that looks like a reference
            return b'"\\u0001%d"' % self._strings(msgspec.json.decode(match[0]))
        return found or match[0]


def readable_message(value: Any, name: str = "") -> Any:
    """A message, as plain values, in which subscriptions and assignments in base64 are decoded.

    `name` is that of the field whose value is `value`; it decides what can be decoded.
    """
    match value:
        case dict():
            return {key: readable_message(each, key) for key, each in value.items()}
        case list() | tuple():
            return [readable_message(each, name) for each in value]
        case str() if value and name in CONSUMER_BYTES:
            try:
                return CONSUMER_BYTES[name](base64.b64decode(value, validate=True))
            except (binascii.Error, MalformedConsumerProtocol):
                return value
    return value


def _readable(event: Event) -> Any:
    """The fields of an event with subscriptions or assignments decoded; other bytes are given as base64."""
    decoded = _assignment if isinstance(event, e.AssignmentWritten) else _subscription
    return _without_bytes(msgspec.to_builtins(event, str_keys=True, builtin_types=(bytes,)), decoded)


def _without_bytes(value: Any, decoded: Callable[[bytes], Any]) -> Any:
    match value:
        case bytes():
            try:
                return decoded(value) if value else ""
            except MalformedConsumerProtocol:
                return base64.b64encode(value).decode()
        case dict():
            return {key: _without_bytes(each, decoded) for key, each in value.items()}
        case list() | tuple():
            return [_without_bytes(each, decoded) for each in value]
    return value


@lru_cache(maxsize=4096)
def _assignment(data: bytes) -> dict[str, list[int]]:
    return _by_topic(decode_assignment(data).partitions)


@lru_cache(maxsize=4096)
def _subscription(data: bytes) -> dict[str, Any]:
    found = decode_subscription(data)
    owned = {"owned_partitions": _by_topic(found.owned_partitions)} if found.owned_partitions else {}
    return {"topics": list(found.topics), **owned}


def _by_topic(partitions: tuple[TopicPartition, ...]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    return topics


CONSUMER_BYTES: Final[Mapping[str, Callable[[bytes], dict[str, Any]]]] = {
    "assignment": _assignment,
    "metadata": _subscription,
}
"""The fields of messages in which consumers send each other subscriptions and assignments, and their decoders."""
