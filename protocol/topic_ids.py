"""Converts topic ids between sixteen bytes and Kafka's text form: URL-safe base64 without padding."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def topic_id_text(data: bytes) -> str:
    """Convert a topic id from sixteen bytes to Kafka's text form."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def topic_id_bytes(text: str) -> bytes:
    """Convert a topic id from Kafka's text form to sixteen bytes."""
    return urlsafe_b64decode(text + "==")
