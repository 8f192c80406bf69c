"""The requests of one connection that wait to be handled, as frames, and the bytes that do not form a frame yet."""

from collections import deque

from regroup.protocol.exceptions import Malformed
from regroup.protocol.frames import FrameReader


class RequestQueue:
    """Splits the bytes that arrive on a connection into requests, and keeps these in their order."""

    def __init__(self, max_frame_bytes: int) -> None:
        self.frames: deque[bytes] = deque()
        """The requests, without their lengths. Only the methods here remove them."""
        self.parse_error: str | None = None
        """Why no request can be read after the last one; None while the bytes are in order."""
        self._reader = FrameReader(max_frame_bytes)
        self._queued_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that are kept, those of an incomplete frame among them."""
        return self._queued_bytes + self._reader.buffered_bytes

    def feed(self, data: bytes) -> None:
        """Add the requests that are complete with these bytes."""
        try:
            for frame in self._reader.feed(data):
                self.frames.append(frame)
                self._queued_bytes += len(frame)
        except Malformed as error:
            self.parse_error = str(error)  # the requests before it still get their responses

    def take(self) -> bytes:
        """Remove the first request and return it."""
        frame = self.frames.popleft()
        self._queued_bytes -= len(frame)
        return frame

    def skip(self, count: int) -> None:
        """Remove the first `count` requests."""
        self._queued_bytes -= sum([len(self.frames.popleft()) for _ in range(count)])

    def drop(self) -> None:
        """Drop all requests. Their bytes still count as waiting, so that no more are read in their place."""
        self.frames.clear()

    def clear(self) -> None:
        """Free everything, since the connection is lost."""
        self.frames.clear()
        self._queued_bytes = 0
        self._reader.clear()  # up to 100 MB, which a collection of reference cycles would free much later
