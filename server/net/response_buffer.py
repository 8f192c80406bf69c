"""Responses that are ready to be sent: short ones together, long ones in pieces and without another copy."""

from collections import deque
from typing import Final, TypeAlias

_SHORT_BYTES: Final = 64 * 1024
"""Responses are written together up to this size."""
_PIECE_BYTES: Final = 256 * 1024
"""A transport copies what the socket does not take at once, so a long response is handed to it in pieces."""

Buffer: TypeAlias = bytes | bytearray | memoryview


class UnreadBytes:
    """How many bytes of responses all clients together have not read, those included that are being encoded."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.total_bytes = 0

    @property
    def are_too_many(self) -> bool:
        return self.total_bytes > self.max_bytes


class ResponseBuffer:
    """Responses in order. It is false when it is empty."""

    def __init__(self, unread: UnreadBytes) -> None:
        self._responses: deque[Buffer] = deque()
        self._total_bytes = 0
        self._encoded_bytes = 0
        self._unread = unread

    def __bool__(self) -> bool:
        return bool(self._responses)

    @property
    def is_full(self) -> bool:
        """There is enough to be written."""
        return self._total_bytes >= _SHORT_BYTES

    def count_encoded(self, size_bytes: int) -> None:
        """Count what is encoded so far of a response that is added later."""
        self._unread.total_bytes += size_bytes - self._encoded_bytes
        self._encoded_bytes = size_bytes

    def add(self, response: Buffer) -> None:
        self.count_encoded(0)
        self._responses.append(response)
        self._count(len(response))

    def clear(self) -> None:
        self.count_encoded(0)
        self._responses.clear()
        self._count(-self._total_bytes)

    def _count(self, size_bytes: int) -> None:
        self._total_bytes += size_bytes
        self._unread.total_bytes += size_bytes

    def next_piece(self, *, whole: bool) -> Buffer:
        """Remove and return what is to be written next; with `whole`, only complete responses."""
        if self._total_bytes <= _PIECE_BYTES or (whole and len(self._responses) == 1):
            piece: Buffer = b"".join(self._responses) if len(self._responses) > 1 else self._responses[0]
            self._responses.clear()
            self._count(-self._total_bytes)
            return piece
        first = self._responses.popleft()
        if not whole and len(first) > _PIECE_BYTES:
            view = memoryview(first)
            first, rest = view[:_PIECE_BYTES], view[_PIECE_BYTES:]
            self._responses.appendleft(rest)
        self._count(-len(first))
        return first
