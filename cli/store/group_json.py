"""Adds decoded topics and partitions to the JSON form of a group, beside the bytes that its members exchanged."""

from base64 import b64decode
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    decode_assignment,
    decode_subscribed_topics,
)


def with_decoded_bytes(group: dict[str, Any]) -> dict[str, Any]:
    """The JSON form of a group with `topics` beside each member's protocols, and `partitions` beside its assignment.

    Only groups of consumers are decoded; other protocol types, such as Kafka Connect's, have bytes of their own.
    """
    return dict(_decode(group)) if group.get("protocol_type") == "consumer" else group


def _decode(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    decoded: dict[str, Any] = {}
    for key, each in value.items():
        decoded[key] = _decode(each)
        match key, each:  # a topic or a member may have the same name, but its value has another type
            case "supported_protocols", list() | tuple():
                decoded |= _topics(each)
            case "assignment", str() if (names := _partition_names(each)) is not None:
                decoded["partitions"] = names
            case "uncommitted_assignments", dict():
                decoded["uncommitted_partitions"] = {name: _partition_names(data) for name, data in each.items()}
    return decoded


def _topics(protocols: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The topics of a member, from the first of its protocols that can be decoded; they are the same for each."""
    for _, metadata in protocols:
        with suppress(MalformedConsumerProtocol):
            return {"topics": list(decode_subscribed_topics(b64decode(metadata)))}
    return {}


def _partition_names(assignment: Any) -> list[str] | None:
    """The names of the assigned partitions, such as `orders-0`; None if the assignment is not that of a consumer."""
    with suppress(MalformedConsumerProtocol, TypeError):
        return [f"{each.topic}-{each.partition}" for each in decode_assignment(b64decode(assignment)).partitions]
    return None
