"""One end of a simulated connection, and the link to the other one: bytes arrive in order and once, or not at all.

It is a transport of asyncio, so that the same programs run on it as on TCP. Its network draws the delay of each chunk
of bytes; while the link is cut, the bytes wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from regroup.lab.simulation.network.message_log import Chunk, MessageLog
from regroup.server.net.connection import Connection

RESET: Final = "connection reset by peer"


class ConnectionInterceptor(Protocol):
    """Observes the bytes of every connection, and may break a connection when bytes arrive."""

    def on_sent(self, endpoint: "Endpoint", data: bytes) -> None:
        """Take bytes that a program has written at this endpoint, before they are on their way."""

    def on_received(self, endpoint: "Endpoint", data: bytes) -> bool:
        """Take bytes that have arrived at this endpoint, before the program there gets them.

        Returns True if the interceptor has broken the connection: the bytes are then lost.
        """


class EndpointNetwork(Protocol):
    """What one end of a connection needs of the network to which it belongs."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop on whose clock bytes arrive."""

    @property
    def interceptor(self) -> ConnectionInterceptor | None:
        """The observer of all bytes; None if there is none."""

    @property
    def messages(self) -> MessageLog | None:
        """The log of lost and late messages; None if the run is not recorded."""

    def delay_s(self) -> float:
        """Draw the delay of the next chunk of bytes."""

    def reason_for_delay(self) -> str:
        """Why a chunk of bytes that is sent now may take longer than planned; empty if nothing delays it."""

    def on_unknown_connection(self, endpoint: "Endpoint") -> None:
        """Handle bytes that have arrived at a host which does not have the connection, or is down."""

    def remove(self, endpoint: "Endpoint", protocol: asyncio.Protocol | None) -> None:
        """Forget an endpoint whose connection has ended, and its protocol object."""


class Link:
    """The path from one host to another, in one direction.

    While it is cut, all bytes wait at its beginning, in order.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_open: bool) -> None:
        self._loop = loop
        self.is_open = is_open
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()

    def send(self, deliver: Callable[[], None], delay_s: float) -> None:
        """Call `deliver`, which hands bytes over at the other end, after a delay; on a cut link, after it is open
        again."""
        if self.is_open:
            self._loop.call_later(delay_s, deliver)
        else:
            self._waiting.append((delay_s, deliver))

    def set_open(self, is_open: bool) -> None:
        """Open the link, so that waiting bytes are sent, or cut it."""
        self.is_open = is_open
        while self._waiting and self.is_open:
            delay_s, deliver = self._waiting.popleft()
            self._loop.call_later(delay_s, deliver)


class Endpoint(asyncio.Transport):
    """One end of a connection. Bytes written here arrive at `peer` in order, each chunk after a delay of its own."""

    peer: "Endpoint"

    def __init__(
        self,
        network: EndpointNetwork,
        host: str,
        peer_host: str,
        link: Link,
        port: int,
        *,
        is_client: bool = False,
    ) -> None:
        super().__init__()
        self.host, self.peer_host = host, peer_host
        self.port = port
        """The server's port to which the client has connected."""
        self.is_client = is_client
        self._network = network
        self._link = link
        self._protocol: asyncio.Protocol | None = None
        self._last_arrival_s = 0.0
        self._in_flight: deque[tuple[Callable[[Any, Chunk | None], None], Any, Chunk | None]] = deque()
        self._unread: deque[tuple[bytes, Chunk | None]] = deque()
        self._is_reading = True
        self._is_closing = False
        self._is_closed = False
        self._vanished = False
        """Whether the host was stopped silently: it has lost the connection, and its peer has not noticed."""
        self._end = ""
        """Why the connection is over, for the log of messages; empty while it lasts."""

    @property
    def connection_name(self) -> str:
        """The name that the broker gives the connection: the client's address."""
        server = self.peer if self.is_client else self
        return server._protocol.name if isinstance(server._protocol, Connection) else ""

    def open(self, protocol: asyncio.Protocol) -> None:
        """Connect an asyncio protocol, which gets the bytes that arrive at this endpoint."""
        self._protocol = protocol
        protocol.connection_made(self)

    # asyncio.Transport

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._send(self.peer.receive, bytes(data), is_message=True)
            if self._network.interceptor is not None:
                self._network.interceptor.on_sent(self, data)

    def close(self) -> None:
        """Close the connection in order: the peer gets what was written, and then the end of the stream."""
        self._finish("")

    def abort(self) -> None:
        """Close the connection at once: the peer sees that it was reset."""
        self._finish(RESET)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        while self._unread and self._is_reading:
            self._deliver(self._unread.popleft()[0])

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer_host, self.port) if name == "peername" else default

    # For the network

    def receive(self, data: bytes, chunk: Chunk | None = None) -> None:
        """Hand bytes that have arrived from the peer to the program at this endpoint."""
        if self._vanished:
            self._note_lost(chunk)
            self._network.on_unknown_connection(self.peer)
            return
        interceptor = self._network.interceptor
        if self._is_closed or (interceptor is not None and interceptor.on_received(self, data)):
            self._note_lost(chunk)
            return
        if chunk is not None and self._network.messages is not None:
            self._network.messages.arrived(chunk)
        if self._is_reading:
            self._deliver(data)
        else:
            self._unread.append((data, chunk))

    def close_from_peer(self, reason: str = "", chunk: Chunk | None = None) -> None:
        """End the connection at this endpoint: the peer has closed it or, if a reason is given, has reset it."""
        self._is_closing = True
        self._lose(ConnectionResetError(reason) if reason else None)

    def reset(self, why: str) -> None:
        """Break the connection now: both ends see it, and bytes in flight are lost.

        `why` is recorded in the log of messages.
        """
        self._note_end(why)
        for each in (self, self.peer):
            each.close_from_peer(RESET)

    def stop(self, *, silently: bool) -> None:
        """Drop the connection because this endpoint's host has stopped. With `silently` the peer does not notice."""
        self._note_end(f"{self.host} had stopped")
        self._is_closing = True
        self._vanished = silently
        if not silently:
            self._network.loop.call_later(self._network.delay_s(), self.peer.close_from_peer, RESET)
        self._lose(None)

    def _finish(self, reason: str) -> None:
        if not self._is_closing:
            self._note_end(f"{self.host} had closed the connection")
            self._is_closing = True
            self._send(self.peer.close_from_peer, reason)
            self._network.loop.call_later(0, self._lose, None)

    def _send(self, deliver: Callable[[Any, Chunk | None], None], what: Any, *, is_message: bool = False) -> None:
        """Queue bytes, or the end of the stream, for the peer: they arrive after a delay, and in the order of
        sending."""
        network = self._network
        delay_s = network.delay_s()
        chunk = None
        if is_message and network.messages is not None:
            chunk = network.messages.sent(self, what, delay_s * 1000, network.reason_for_delay())
        self._in_flight.append((deliver, what, chunk))
        self._last_arrival_s = max(network.loop.time() + delay_s, self._last_arrival_s)
        network.loop.call_at(self._last_arrival_s, self._arrive)

    def _arrive(self) -> None:
        if self._link.is_open:
            deliver, what, chunk = self._in_flight.popleft()
            deliver(what, chunk)
            return
        if self._network.messages is not None:
            for _, _, chunk in self._in_flight:
                if chunk is not None:
                    chunk.was_held = True
        self._link.send(self._arrive, 0.0)

    def _note_end(self, why: str) -> None:
        """Keep `why` as the reason for the end of the connection, unless there is an earlier one."""
        for each in (self, self.peer):
            each._end = each._end or why

    def _note_lost(self, chunk: Chunk | None) -> None:
        if chunk is not None and self._network.messages is not None:
            self._network.messages.lost(chunk, self._end)

    def _deliver(self, data: bytes) -> None:
        if not self._is_closed and self._protocol is not None:
            self._protocol.data_received(data)

    def _lose(self, error: Exception | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for _, chunk in self._unread:
            self._note_lost(chunk)
        self._network.remove(self, self._protocol)
        if self._protocol is not None:
            self._protocol.connection_lost(error)
