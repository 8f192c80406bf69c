"""Responses that are ready to be sent: short ones together, long ones in pieces and without another copy."""

from collections import deque
from typing import Final, TypeAlias

_SHORT_BYTES: Final = 64 * 1024
"""Responses are written together up to this size."""
_PIECE_BYTES: Final = 256 * 1024
"""A transport copies what the socket does not take at once, so a long response is handed to it in pieces."""

Buffer: TypeAlias = bytes | bytearray | memoryview


class ResponseBuffer:
    """Responses in order. It is false when it is empty."""

    def __init__(self) -> None:
        self._responses: deque[Buffer] = deque()
        self._total_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._responses)

    @property
    def is_full(self) -> bool:
        """There is enough to be written."""
        return self._total_bytes >= _SHORT_BYTES

    def add(self, response: Buffer) -> None:
        self._responses.append(response)
        self._total_bytes += len(response)

    def clear(self) -> None:
        self._responses.clear()
        self._total_bytes = 0

    def next_piece(self, *, whole: bool) -> Buffer:
        """Remove and return what is to be written next; with `whole`, only complete responses."""
        if self._total_bytes <= _PIECE_BYTES or (whole and len(self._responses) == 1):
            piece: Buffer = b"".join(self._responses) if len(self._responses) > 1 else self._responses[0]
            self.clear()
            return piece
        first = self._responses.popleft()
        if not whole and len(first) > _PIECE_BYTES:
            view = memoryview(first)
            first, rest = view[:_PIECE_BYTES], view[_PIECE_BYTES:]
            self._responses.appendleft(rest)
        self._total_bytes -= len(first)
        return first
