"""A connection that is made of MQTT messages: to the broker's own `Connection` it looks like a socket."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from regroup.server.net.connection import Connection

MOST_HELD_BYTES: Final = 1024 * 1024
"""What may wait while the connection reads nothing; MQTT cannot be told to send less."""


class Pipe(asyncio.Transport):
    """`send` takes what the connection writes. `closed` is told when the connection itself has closed the pipe, and
    whether that was for idleness: then nobody waits for an answer.
    """

    def __init__(
        self, client_host: str, send: Callable[[bytes], object], closed: Callable[["Pipe", bool], object]
    ) -> None:
        super().__init__({"peername": (client_host, 0)})
        self._send = send
        self._closed = closed
        self._connection: Connection | None = None
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._is_paused = False
        self._is_closing = self._was_idle = False

    def join(self, connection: Connection) -> None:
        """The other end."""
        self._connection = connection
        connection.connection_made(self)

    def receive(self, data: bytes) -> None:
        """From the client. Whoever sends on and on without waiting for answers is hung up on."""
        if self._is_closing or self._connection is None:
            return
        if not self._is_paused:
            self._connection.data_received(data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > MOST_HELD_BYTES:
            self.close()

    def cut(self) -> None:
        """The client is gone: nothing is sent any more."""
        self._send = self._closed = _nowhere
        self.abort()

    # -- what a connection asks of its transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._send(bytes(data))

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        held, self._held, self._held_bytes = self._held, deque(), 0
        for data in held:
            self.receive(data)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._end)

    def abort(self) -> None:
        """A connection does so when nothing has moved on it for long."""
        self._was_idle = not self._is_closing
        self.close()

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.connection_lost(None)
        self._closed(self, self._was_idle)


def _nowhere(*what: Any) -> None:
    """Nobody is there who could want it."""
