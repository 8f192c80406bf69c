"""The response to a repeated request: heartbeats are equal byte for byte, and need not be decoded again."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from regroup.server.net.request_recorder import ExchangeRow

MAX_CACHED_BYTES: Final = 64 * 1024
"""Longer requests and responses are not kept: the bytes after a request's body are ignored, and may be many."""

StillValid: TypeAlias = Callable[[], bool]
"""Whether the same request, sent again, gets the same response. If so, the call itself counts as the request."""


class CachedResponse(NamedTuple):
    """The last request and its response, each split around the correlation id in bytes 4 to 8."""

    request_parts: tuple[bytes, bytes]
    response_parts: tuple[bytes, bytes]
    still_valid: StillValid
    row: ExchangeRow | None = None
    """Where the request is recorded, so that its repetitions are counted there."""

    @classmethod
    def from_frames(
        cls, request: bytes, response: bytes | bytearray, still_valid: StillValid, row: ExchangeRow | None = None
    ) -> "CachedResponse":
        """Split the frames. `request` is given without its length prefix, `response` with it."""
        return cls((request[:4], request[8:]), (bytes(response[:4]), bytes(response[8:])), still_valid, row)

    def response_to(self, frame: bytes) -> bytes:
        """The response to the cached request with the correlation id of this frame."""
        return self.response_parts[0] + frame[4:8] + self.response_parts[1]

    def responses_to(self, frames: Iterable[bytes]) -> tuple[int, bytes]:
        """How many of the first frames are the cached request, and their responses in one piece.

        The number is 0 if the requests must be handled. Only the correlation ids differ, so the rest joins them.
        """
        head, tail = self.request_parts
        ids: list[bytes] = []
        for frame in frames:
            if frame[8:] != tail or frame[:4] != head:
                break
            ids.append(frame[4:8])
        if not ids or not self.still_valid():
            return 0, b""
        before, behind = self.response_parts
        return len(ids), before + (behind + before).join(ids) + behind
