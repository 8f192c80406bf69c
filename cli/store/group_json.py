"""A group as JSON, and beside the bytes that its members exchanged what they say, as far as that can be known."""

from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    decode_assignment,
    decode_subscribed_topics,
)

CONSUMERS: Final = "consumer"
"""The protocol type whose bytes can be read; Kafka Connect, for one, has its own."""


def readable(group: dict[str, Any]) -> dict[str, Any]:
    """The same, with `topics` beside each member's protocols and `partitions` beside its assignment."""
    return _with_words(group) if group.get("protocol_type") == CONSUMERS else group


def _with_words(value: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key, each in value.items():
        shown[key] = _within(each)
        if key in SAID_BY:
            shown |= SAID_BY[key](each)
    return shown


def _within(value: Any) -> Any:
    match value:
        case dict():
            return _with_words(value)
        case [*items]:
            return [_within(each) for each in items]
    return value


def _topics(protocols: Any) -> dict[str, Any]:
    """Every protocol of a member subscribes to the same; the first that can be read says it."""
    if not isinstance(protocols, list | tuple):
        return {}
    for _, metadata in protocols:
        try:
            return {"topics": list(decode_subscribed_topics(b64decode(metadata)))}
        except MalformedConsumerProtocol:
            continue
    return {}


def _partitions(assignment: Any) -> dict[str, Any]:
    names = _names(assignment)
    return {} if names is None else {"partitions": names}


def _written_partitions(assignments: Any) -> dict[str, Any]:
    if not isinstance(assignments, dict):
        return {}
    return {"written_partitions": {member: _names(each) for member, each in assignments.items()}}


def _names(assignment: Any) -> list[str] | None:
    """`orders-0` and so on; None for what is no assignment of a consumer."""
    if not isinstance(assignment, str):
        return None
    try:
        partitions = decode_assignment(b64decode(assignment)).partitions
    except MalformedConsumerProtocol:
        return None
    return [f"{each.topic}-{each.partition}" for each in partitions]


SAID_BY: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "protocols": _topics,
    "assignment": _partitions,
    "written_assignment": _written_partitions,
}
"""What is put beside a field. A topic or a member may have the same name; its value has another shape."""
