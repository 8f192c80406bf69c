"""Payloads of MQTT messages as JSON: every client that may publish can send any bytes."""

from typing import TypeVar

import msgspec

Payload = TypeVar("Payload")


def decode_payload(payload: bytes, payload_type: type[Payload]) -> Payload:
    """Decode JSON. Raises ValueError for everything else, also for JSON that is nested too deeply."""
    try:
        return msgspec.json.decode(payload, type=payload_type)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
