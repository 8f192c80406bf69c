"""Two functions for each message and version, made at first use and kept.

encode, decode = codec(HeartbeatRequest, 4)
message, position = decode(buffer, 0)      # Malformed if the bytes lie
message, position = decode(buffer, 0, 10)  # or if its arrays have more than ten entries, all in all
encode(message, bytearray())               # Unencodable if the version has no place for a value
"""

from collections.abc import Callable
from functools import cache
from typing import Generic, NamedTuple, TypeVar, cast

from regroup.protocol.codec.decoder import compile_decoder
from regroup.protocol.codec.encoder import compile_encoder
from regroup.protocol.exceptions import Malformed
from regroup.protocol.message import Message

AMessage = TypeVar("AMessage", bound=Message)


class Codec(NamedTuple, Generic[AMessage]):
    """`encode` appends to a bytearray (what a failure leaves there is worthless); `decode` returns where it stopped."""

    encode: Callable[[AMessage, bytearray], None]
    decode: Callable[..., tuple[AMessage, int]]


def codec(message: type[AMessage], version: int) -> Codec[AMessage]:
    """The functions for one version. ValueError if the message does not have it."""
    return cast("Codec[AMessage]", _codec(message, version))


@cache
def _codec(message: type[Message], version: int) -> Codec[Message]:
    if version not in message.versions:
        raise ValueError(f"{message.__name__} has versions {message.versions}, not {version}")
    return Codec(compile_encoder(message, version), compile_decoder(message, version))


def encode(message: Message, version: int) -> bytes:
    """The body alone, without header or length."""
    out = bytearray()
    codec(type(message), version).encode(message, out)
    return bytes(out)


def decode(message: type[AMessage], version: int, buffer: bytes) -> AMessage:
    """A body that fills `buffer` to its last byte; anything else is Malformed."""
    value, position = codec(message, version).decode(buffer, 0)
    refuse_rest(buffer, position, f"{message.__name__} v{version}")
    return value


def refuse_rest(buffer: bytes, position: int, title: str) -> None:
    if position != len(buffer):
        raise Malformed(f"{title} ends at offset {position}, but {len(buffer) - position} more bytes follow")
