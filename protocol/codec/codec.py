"""Encodes and decodes one version of a message, by two functions that are compiled when they are first used.

encode, decode = codec(HeartbeatRequest, 4)
message, position = decode(buffer, 0)      # Malformed if the bytes are not this message
message, position = decode(buffer, 0, 10)  # … or if its arrays have more than ten entries together
encode(message, bytearray())               # Unencodable if the version cannot carry a value

for _ in encode_in_turns(message, 4, out, 65536, max_bytes): ...  # pauses after every 64 KiB; TooLong beyond max_bytes
"""

from collections.abc import Callable, Generator, Iterator
from functools import cache
from typing import Generic, NamedTuple, TypeVar

from regroup.protocol.codec.decoder import compile_decoder
from regroup.protocol.codec.encoder import compile_encoder
from regroup.protocol.exceptions import Malformed, TooLong
from regroup.protocol.message import Message

__all__ = ["encode", "decode"]

MessageT = TypeVar("MessageT", bound=Message)


class Codec(NamedTuple, Generic[MessageT]):
    """The two functions that encode and decode one version of a message.

    `encode(message, out)` appends to the bytearray `out`, which must not be used after an error. `decode(buffer,
    position)` returns the message and the position after its last byte.
    """

    encode: Callable[[MessageT, bytearray], None]
    decode: Callable[..., tuple[MessageT, int]]


def codec(message: type[MessageT], version: int) -> Codec[MessageT]:
    """The functions that encode and decode this version of a message, which are compiled when they are first needed.
    Raises ValueError if the message does not have this version."""
    return _codec(message, version)  # type: ignore[return-value]  # a cast would be a call


@cache
def _codec(message: type[Message], version: int) -> Codec[Message]:
    if version not in message.versions:
        raise ValueError(f"{message.__name__} has versions {message.versions}, not {version}")
    return Codec(compile_encoder(message, version), compile_decoder(message, version))


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message, without header and length. Raises Unencodable."""
    out = bytearray()
    codec(type(message), version).encode(message, out)
    return bytes(out)


def encode_in_turns(
    message: Message, version: int, out: bytearray, bytes_per_turn: int, max_bytes: int
) -> Iterator[None]:
    """Encode a message and append it to `out`. The returned iterator yields whenever another `bytes_per_turn` bytes
    have been written, so that other work can be done in between.

    Raises Unencodable, or TooLong soon after `out` has grown beyond `max_bytes`: at the latest after the next array
    element.
    """
    turns = _encoder_in_turns(type(message), version)(message, out, min(bytes_per_turn, max_bytes))
    is_done = next(turns, True)
    try:
        while not is_done:
            if len(out) > max_bytes:
                raise TooLong(f"{type(message).__name__} v{version} would have more than {max_bytes} bytes")
            yield
            turns.send(min(len(out) + bytes_per_turn, max_bytes))
    except StopIteration:
        pass
    if len(out) > max_bytes:
        raise TooLong(f"{type(message).__name__} v{version} has {len(out)} bytes; {max_bytes} are allowed")


@cache
def _encoder_in_turns(message: type[Message], version: int) -> Callable[..., Generator[None, int, None]]:
    return compile_encoder(message, version, in_turns=True)


def decode(message: type[MessageT], version: int, buffer: bytes) -> MessageT:
    """Decode a message that must fill `buffer` to its last byte. Raises Malformed."""
    value, position = codec(message, version).decode(buffer, 0)
    refuse_trailing_bytes(buffer, position, f"{message.__name__} v{version}")
    return value


def refuse_trailing_bytes(buffer: bytes, position: int, title: str) -> None:
    """Raise Malformed if `buffer` does not end at `position`; `title` names what was decoded."""
    if position != len(buffer):
        raise Malformed(f"{title} ends at offset {position}, but {len(buffer) - position} more bytes follow")
