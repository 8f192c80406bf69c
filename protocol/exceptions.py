"""What can go wrong between bytes and messages.

    ProtocolError
    ├── Malformed               bytes that are not what they claim to be
    │   └── MalformedFrame      a frame length that is negative or larger than agreed
    ├── Unencodable             a message that the chosen version cannot carry
    └── Unsupported             a request that cannot be read, though its header can
        ├── UnsupportedApi          … because nobody here knows the API key
        └── UnsupportedVersion      … because the API is known and the version is not

All of them are about bytes. What a broker answers to a member is an `ErrorCode`, and no exception.
"""

from regroup.protocol.header import RequestHeader


class ProtocolError(Exception):
    """Bytes and messages do not fit together."""


class Malformed(ProtocolError):
    """The bytes are truncated, too long, or lie about a length; the text names message, field and offset."""


class MalformedFrame(Malformed):
    """The length in front of a frame is negative or above the agreed limit: the stream cannot be read any further."""


class Unencodable(ProtocolError):
    """The message holds a value that this version cannot carry, or that its type cannot hold."""


class Unsupported(ProtocolError):
    """The header was read, the body cannot be. `header` says who asked for what."""

    def __init__(self, text: str, header: RequestHeader) -> None:
        super().__init__(text)
        self.header = header


class UnsupportedApi(Unsupported):
    """No API with this key is known here. A broker closes the connection."""


class UnsupportedVersion(Unsupported):
    """The API is known, the version is not. A broker closes the connection, or answers ApiVersions with code 35."""
