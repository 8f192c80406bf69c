"""Topic ids as Kafka writes them: URL-safe base64 of sixteen bytes, without padding."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def topic_id_text(data: bytes) -> str:
    """The text of an id that is on the wire."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def topic_id_bytes(text: str) -> bytes:
    """The sixteen bytes of an id in its text form."""
    return urlsafe_b64decode(text + "==")
