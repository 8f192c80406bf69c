"""Splits a byte stream into frames, and encodes and decodes requests and responses with their headers.

A broker uses `decode_request` and `encode_response`, a client `encode_request` and `decode_response`.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from regroup.protocol.apis import APIS, Api
from regroup.protocol.codec.codec import codec, encode_in_turns, refuse_trailing_bytes
from regroup.protocol.codec.decoder import skip_tagged_fields
from regroup.protocol.exceptions import (
    Malformed,
    MalformedFrame,
    TooLong,
    Unencodable,
    UnsupportedApi,
    UnsupportedVersion,
)
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message

__all__ = ["FrameReader", "decode_request", "encode_request", "encode_response", "decode_response"]

DEFAULT_MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's default of `socket.request.max.bytes`."""

MAX_ARRAY_ENTRIES = 100_000
"""The most entries that all arrays of one request may have together. Kafka has no such limit: there a request with ten
million topics occupies one of many threads, here it would block every connection for minutes."""

_LENGTH = struct.Struct(">i")
_REQUEST_START = struct.Struct(">hhih")
_LENGTH_PLACEHOLDER = bytes(4)


class _ApiVersion(NamedTuple):
    """One version of an API: its message classes, and whether its headers have tagged fields."""

    api: Api
    request_is_flexible: bool
    response_is_flexible: bool


_API_VERSIONS: Final = {
    (key, version): _ApiVersion(api, version in api.flexible, api.response_header_is_flexible(version))
    for key, api in APIS.items()
    for version in range(api.versions.first, api.versions.last + 1)
}


class FrameReader:
    """Splits a byte stream into frames, and holds the bytes of an incomplete frame.

    for frame in reader.feed(chunk): ...       # frames without their length
    """

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    @property
    def buffered_bytes(self) -> int:
        """The number of received bytes that do not form a complete frame yet. At the end of a stream it is 0 unless the
        last frame was cut off."""
        return len(self._buffer)

    def clear(self) -> None:
        """Free the bytes of the incomplete frame, because the stream has ended and no more bytes will come."""
        self._buffer = bytearray()

    def feed(self, chunk: bytes | bytearray | memoryview) -> Iterable[bytes]:
        """Yield every frame that is complete now. After MalformedFrame the stream cannot be read any further.

        The chunk is copied by the call, so it may be reused while the frames are being read.
        """
        if not self._buffer and type(chunk) is bytes and len(chunk) >= 4:
            (length,) = _LENGTH.unpack_from(chunk)
            if length == len(chunk) - 4 <= self._max_frame_bytes:
                return (chunk[4:],)  # mostly it is one frame
        if self._buffer or not isinstance(chunk, bytes):
            self._buffer += chunk
            return self._complete_frames(self._buffer)
        return self._complete_frames(chunk)  # it often ends where a frame ends, and nothing need be held

    def _complete_frames(self, stream: bytes | bytearray) -> Iterator[bytes]:
        position, end = 0, len(stream)
        try:
            while end - position >= 4:
                (length,) = _LENGTH.unpack_from(stream, position)
                if not 0 <= length <= self._max_frame_bytes:
                    raise MalformedFrame(
                        f"a frame of {length} bytes; between 0 and {self._max_frame_bytes} are allowed"
                    )
                stop = position + 4 + length
                if stop > end:
                    return
                frame = slice(position + 4, stop)
                position = stop
                yield stream[frame] if isinstance(stream, bytes) else bytes(memoryview(stream)[frame])
        finally:
            if stream is self._buffer:
                del self._buffer[:position]
            elif position < end:
                self._buffer += stream[position:]


def decode_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """Decode the header of a request; returns it with the offset at which the body begins.

    Raises UnsupportedApi or UnsupportedVersion, both with the header, or Malformed.
    """
    try:
        key, version, correlation_id, length = _REQUEST_START.unpack_from(frame)
    except struct.error:
        raise Malformed(f"a request of {len(frame)} bytes is too short for a header") from None
    position = 10 + max(length, 0)
    if length < -1 or position > len(frame):
        raise Malformed(f"request header, field client_id, offset 8: length {length} is impossible")
    # Kafka serves a client whose id is not UTF-8, and puts U+FFFD in place of what it cannot decode.
    client_id = None if length < 0 else frame[10:position].decode(errors="replace")
    header = RequestHeader(key, version, correlation_id, client_id)
    if _api_version(key, version, header).request_is_flexible:
        has_no_tags = frame[position : position + 1] == b"\0"
        position = position + 1 if has_no_tags else _skip_header_tags(frame, position, "request")
    return header, position


def _api_version(key: int, version: int, header: RequestHeader | None = None) -> _ApiVersion:
    """One version of an API, by its key and number. Raises UnsupportedApi or UnsupportedVersion, both with the
    header."""
    found = _API_VERSIONS.get((key, version))
    if found is None:
        header = header or RequestHeader(key, version, 0, None)
        api = APIS.get(key)
        if api is None:
            raise UnsupportedApi(f"unknown API key: {key}", header)
        raise UnsupportedVersion(f"{api.name} has versions {api.versions}, not {version}", header)
    return found


def _skip_header_tags(frame: bytes, position: int, kind: str) -> int:
    try:
        return skip_tagged_fields(frame, position)
    except (IndexError, ValueError) as error:
        raise Malformed(f"{kind} header, tagged fields, offset {position}: {error}") from None


_NO_LIMITS: Mapping[int, int] = {}


def decode_request(frame: bytes, max_entries: Mapping[int, int] = _NO_LIMITS) -> tuple[RequestHeader, Message]:
    """Decode one request frame; returns header and body. Raises UnsupportedApi, UnsupportedVersion or Malformed.

    `max_entries` limits the entries of all arrays together by API key; the default is MAX_ARRAY_ENTRIES.
    Bytes after the body are ignored, as Kafka does: librdkafka sends three too many when it asks for the metadata of
    all topics in a flexible version (https://github.com/confluentinc/librdkafka/issues/5049).
    """
    header, position = decode_request_header(frame)
    limit = max_entries.get(header.api_key, MAX_ARRAY_ENTRIES)
    message, _ = codec(APIS[header.api_key].request, header.api_version).decode(frame, position, limit)
    return header, message


def encode_request(header: RequestHeader, message: Message) -> bytes:
    """Encode a request as one frame with its length, ready to be sent. Raises Unencodable, UnsupportedApi or
    UnsupportedVersion."""
    api, is_flexible, _ = _api_version(header.api_key, header.api_version, header)
    if type(message) is not api.request:
        raise Unencodable(f"API {api.key} has the request {api.request.__name__}, not {type(message).__name__}")
    client_id = header.client_id.encode() if header.client_id is not None else b""
    length = len(client_id) if header.client_id is not None else -1
    if length > 32767:
        raise Unencodable(f"a client id of {length} bytes is longer than 32767")
    out = bytearray(_LENGTH_PLACEHOLDER)
    out += _REQUEST_START.pack(header.api_key, header.api_version, header.correlation_id, length)
    out += client_id
    if is_flexible:
        out.append(0)
    codec(api.request, header.api_version).encode(message, out)
    return _framed(out)


def encode_response(api_key: int, api_version: int, correlation_id: int, message: Message) -> bytes:
    """Encode a response as one frame with its length, ready to be sent. Raises Unencodable, UnsupportedApi or
    UnsupportedVersion."""
    out = _response_header(api_key, api_version, correlation_id, message)
    codec(type(message), api_version).encode(message, out)
    return _framed(out)


def encode_short_response(header: RequestHeader, message: Message, max_bytes: int) -> bytearray:
    """Encode the response to the request with this header as one frame with its length, in one portion.

    Raises Unencodable, UnsupportedApi or UnsupportedVersion, or TooLong if the frame exceeds `max_bytes`.
    """
    out = _response_header(header.api_key, header.api_version, header.correlation_id, message)
    codec(type(message), header.api_version).encode(message, out)
    if len(out) > max_bytes:
        raise TooLong(f"{type(message).__name__} v{header.api_version} has {len(out)} bytes; {max_bytes} are allowed")
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return out


def _response_header(api_key: int, api_version: int, correlation_id: int, message: Message) -> bytearray:
    api, _, is_flexible = _api_version(api_key, api_version)
    if type(message) is not api.response:
        raise Unencodable(f"API {api.key} has the response {api.response.__name__}, not {type(message).__name__}")
    out = bytearray(_LENGTH_PLACEHOLDER)
    out += _LENGTH.pack(correlation_id)
    if is_flexible:
        out.append(0)
    return out


class ResponseEncoder:
    """Encodes one response in portions, into one buffer.

    while not encoder.encode_portion(): ...    # until all is encoded
    encoder.out                                # then the frame with its length
    """

    def __init__(self, header: RequestHeader, message: Message, bytes_per_portion: int, max_bytes: int) -> None:
        """Prepare to encode the response to the request with this header. Raises Unencodable, UnsupportedApi or
        UnsupportedVersion."""
        self.out = _response_header(header.api_key, header.api_version, header.correlation_id, message)
        self._portions = encode_in_turns(message, header.api_version, self.out, bytes_per_portion, max_bytes)

    def encode_portion(self) -> bool:
        """Encode the next portion; returns True if it was the last one. Raises Unencodable, or TooLong if the frame
        exceeds `max_bytes`."""
        for _ in self._portions:
            return False
        _LENGTH.pack_into(self.out, 0, len(self.out) - 4)
        return True


def _framed(out: bytearray) -> bytes:
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def decode_response(api_key: int, api_version: int, frame: bytes) -> tuple[int, Message]:
    """Decode one response frame; returns its correlation id and body. API key and version are those of the request.
    Raises Malformed."""
    if len(frame) < 4:
        raise Malformed(f"a response of {len(frame)} bytes is too short for a correlation id")
    (correlation_id,) = _LENGTH.unpack_from(frame)
    api, _, is_flexible = _api_version(api_key, api_version)
    position = 4
    if is_flexible:
        position = _skip_header_tags(frame, position, "response")
    message, position = codec(api.response, api_version).decode(frame, position)
    refuse_trailing_bytes(frame, position, f"{api.response.__name__} v{api_version}")
    return correlation_id, message
