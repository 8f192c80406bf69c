"""Buffers responses that are ready to be sent: short ones are joined, long ones are sent in pieces without another
copy.
"""

from collections import deque
from collections.abc import Generator
from typing import Final, TypeAlias

from regroup.protocol.frames import ResponseEncoder
from regroup.server.limits import STEPS_PER_TURN

_SHORT_BYTES: Final = 64 * 1024
"""Responses are collected up to this many bytes and then written together."""
_PIECE_BYTES: Final = 256 * 1024
"""A long response is passed to the transport in pieces of this size in bytes, because a transport copies what the
socket does not take at once."""

Buffer: TypeAlias = bytes | bytearray | memoryview


class UnreadBytes:
    """Counts the bytes of responses that clients have not read, on all connections together. Responses that are being
    encoded are included."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.total_bytes = 0

    @property
    def are_too_many(self) -> bool:
        return self.total_bytes > self.max_bytes


class ResponseBuffer:
    """The responses of one connection that have not been written, in order. An empty buffer is false."""

    def __init__(self, unread: UnreadBytes) -> None:
        self._responses: deque[Buffer] = deque()
        self._total_bytes = 0
        self._encoded_bytes = 0
        self._unread = unread

    def __bool__(self) -> bool:
        return bool(self._responses)

    @property
    def is_full(self) -> bool:
        """Whether the buffer has so many bytes that they should be written without waiting for more responses."""
        return self._total_bytes >= _SHORT_BYTES

    def count_encoded(self, size_bytes: int) -> None:
        """Add the bytes of a response that is being encoded to the count of unread bytes. `size_bytes` is how many
        bytes of it are encoded so far; the response is added to the buffer later."""
        self._unread.total_bytes += size_bytes - self._encoded_bytes
        self._encoded_bytes = size_bytes

    def add(self, response: Buffer) -> None:
        if self._encoded_bytes:
            self.count_encoded(0)
        size_bytes = len(response)
        self._responses.append(response)
        self._total_bytes += size_bytes
        self._unread.total_bytes += size_bytes

    def clear(self) -> None:
        self.count_encoded(0)
        self._responses.clear()
        self._count(-self._total_bytes)

    def _count(self, size_bytes: int) -> None:
        self._total_bytes += size_bytes
        self._unread.total_bytes += size_bytes

    def next_piece(self, *, whole: bool) -> Buffer:
        """Remove and return the bytes that are to be written next; with `whole`, only complete responses."""
        if self._total_bytes <= _PIECE_BYTES or (whole and len(self._responses) == 1):
            piece: Buffer = b"".join(self._responses) if len(self._responses) > 1 else self._responses[0]
            self._responses.clear()
            self._unread.total_bytes -= self._total_bytes
            self._total_bytes = 0
            return piece
        first = self._responses.popleft()
        if not whole and len(first) > _PIECE_BYTES:
            view = memoryview(first)
            first, rest = view[:_PIECE_BYTES], view[_PIECE_BYTES:]
            self._responses.appendleft(rest)
        self._count(-len(first))
        return first


def encode_within(
    unread: UnreadBytes, encoder: ResponseEncoder, responses: ResponseBuffer
) -> Generator[int, None, str | None]:
    """Encode the rest of a long response in turns. Returns None when it is encoded, or the reason for which it is not
    to be sent.

    A response is not to be sent if the unread responses of all clients, with the encoded part of this one, take too
    many bytes.
    """
    is_encoded = False
    while not is_encoded:
        responses.count_encoded(len(encoder.out))
        if unread.are_too_many:
            unread_mib = unread.total_bytes // 2**20
            responses.count_encoded(0)
            return f"clients have not read {unread_mib} MiB of responses; this one is not sent"
        yield STEPS_PER_TURN
        is_encoded = encoder.encode_portion()
    return None
