"""Decodes JSON payloads of MQTT messages. Every client that may publish can send any bytes."""

from typing import TypeVar

import msgspec

Payload = TypeVar("Payload")


def decode_payload(payload: bytes, payload_type: type[Payload]) -> Payload:
    """Decode JSON to this type. Raises ValueError for any other bytes, also for JSON that is nested too deeply."""
    try:
        return msgspec.json.decode(payload, type=payload_type)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
