"""The exceptions of the protocol: bytes that cannot be decoded, and messages that cannot be encoded.

    ProtocolError
    ├── Malformed               bytes that cannot be decoded
    │   └── MalformedFrame      a frame length that is negative or above the limit
    ├── Unencodable             a message that the chosen version cannot carry
    ├── TooLong                 a message that would be longer than allowed
    └── Unsupported             a request whose header is readable, and whose body is not
        ├── UnsupportedApi          … because the API key is unknown
        └── UnsupportedVersion      … because the API is known, and the version is not

An error response of a broker is an `ErrorCode`, not an exception.
"""

from regroup.protocol.header import RequestHeader

__all__ = [
    "ProtocolError",
    "Malformed",
    "MalformedFrame",
    "Unencodable",
    "Unsupported",
    "UnsupportedApi",
    "UnsupportedVersion",
]


class ProtocolError(Exception):
    """Raised if bytes cannot be decoded or a message cannot be encoded: the base class of the other exceptions."""


class Malformed(ProtocolError):
    """The bytes are truncated, too long, or contain an impossible length; the text names message, field and offset."""


class MalformedFrame(Malformed):
    """The length of a frame is negative or above the limit; the rest of the stream cannot be read."""


class Unencodable(ProtocolError):
    """The message holds a value that this version, or the type of the field, cannot carry."""


class TooLong(ProtocolError):
    """The message would have more bytes than the sender allows."""


class Unsupported(ProtocolError):
    """The body of a request cannot be decoded because its API or version is unknown; `header` is the decoded header of
    the request."""

    def __init__(self, text: str, header: RequestHeader) -> None:
        super().__init__(text)
        self.header = header


class UnsupportedApi(Unsupported):
    """The API key is unknown. A broker closes the connection."""


class UnsupportedVersion(Unsupported):
    """The version of a known API is unknown. A broker closes the connection, or answers ApiVersions with code 35."""
