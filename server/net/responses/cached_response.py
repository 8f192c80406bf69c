"""The cached response to a repeated request: heartbeats of a member are equal byte for byte, and need not be decoded
again.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from regroup.server.net.request_recorder import ExchangeRow

MAX_CACHED_BYTES: Final = 64 * 1024
"""The most bytes of a request or response that is cached. Bytes behind a request's body are ignored and may be many."""

StillValid: TypeAlias = Callable[[], bool]
"""A function that says whether the same request would get the same response again. If it returns True, its call has had
the effect of that request, such as restarting a session timeout."""


class CachedResponse(NamedTuple):
    """A connection's last request and its response. Each is split around the correlation id (bytes 4 to 7), which alone
    differs between repetitions."""

    request_parts: tuple[bytes, bytes]
    response_parts: tuple[bytes, bytes]
    still_valid: StillValid
    row: ExchangeRow | None = None
    """The recorded row in which repetitions of this request are counted; None if exchanges are not recorded."""

    @classmethod
    def from_frames(
        cls, request: bytes, response: bytes | bytearray, still_valid: StillValid, row: ExchangeRow | None = None
    ) -> "CachedResponse":
        """A cached response from encoded frames. `request` is given without its length prefix, `response` with it."""
        return cls((request[:4], request[8:]), (bytes(response[:4]), bytes(response[8:])), still_valid, row)

    def response_to(self, frame: bytes) -> bytes:
        """The cached response in encoded form, with the correlation id of the request `frame` in place of its own."""
        return self.response_parts[0] + frame[4:8] + self.response_parts[1]

    def responses_to(self, frames: Iterable[bytes]) -> tuple[int, bytes]:
        """Return how many of the request frames, counted from the first, repeat the cached request, and the encoded
        responses to these frames, joined.

        The number is 0 if the first frame is another request, or if the cached response is not valid any more: then the
        requests must be handled.
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
