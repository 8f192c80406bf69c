"""Limits the connections to the control port: their number, and the time for the head of a request and for reading a
response.

Without this a program that opens connections and sends half a request on each would take all that the port may have.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 500
"""The most connections at once, and the most requests in progress."""
HEAD_TIMEOUT_S: Final = 10.0
"""Seconds for the request line and the headers, from the opening of the connection or from their first byte."""
READ_TIMEOUT_S: Final = 30.0
"""For how many seconds a client may leave a response unread."""


class BoundedConnection(H11Protocol):
    """An HTTP connection that is closed if the head of its next request does not arrive in time, or if the client takes
    too long to read a response.

    If there are more than `MAX_CONNECTIONS`, the one that has waited longest for a request is closed.
    """

    waits_since_s = 0.0
    """When it began to wait for a request, in seconds of the loop's clock."""
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_has_come()
        self._response_is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.handles_request:
            self._head_has_come()
        elif self._head_timer is None and not self.transport.is_closing():
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_timer = self.loop.call_later(READ_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._response_is_read()
        super().resume_writing()

    def on_response_complete(self) -> None:
        self.waits_since_s = self.loop.time()
        super().on_response_complete()

    @property
    def handles_request(self) -> bool:
        """Whether a request has arrived whose response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        self.waits_since_s = self.loop.time()
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._abort_if_waiting)

    def _head_has_come(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _response_is_read(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _abort_if_waiting(self) -> None:
        self._head_timer = None
        if not self.handles_request:
            self.transport.abort()

    def _make_room(self) -> None:
        """Close the connection that has waited longest for a request. If all other connections are handling requests,
        close this one instead."""
        others: list[Any] = [each for each in self.connections if each is not self]
        waiting = [each for each in others if not each.handles_request and not each.transport.is_closing()]
        if waiting:
            min(waiting, key=lambda each: each.waits_since_s).transport.abort()
