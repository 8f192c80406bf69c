"""Converts topic ids between sixteen bytes and Kafka's text form: URL-safe base64 without padding."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def topic_id_text(data: bytes) -> str:
    """The text form of a topic id that a message has as sixteen bytes."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def topic_id_bytes(text: str) -> bytes:
    """The sixteen bytes of a topic id in text form."""
    return urlsafe_b64decode(text + "==")
