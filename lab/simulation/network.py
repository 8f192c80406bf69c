"""A simulated network in memory that behaves like TCP: while a connection lasts, bytes arrive in order and once.

The faults are those of TCP. Bytes are delayed; bytes on a cut link are held back until it is restored; a connection is
reset, and a client that waits for a response cannot know whether its request arrived.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol, TypeAlias

from regroup.lab.plan.plan import NetworkPlan
from regroup.lab.plan.steps import ALL_HOSTS
from regroup.lab.simulation.message_log import Chunk, MessageLog
from regroup.server.net.connection import Connection

ProtocolFactory: TypeAlias = Callable[[], asyncio.Protocol]
_RESET: Final = "connection reset by peer"


class ConnectionInterceptor(Protocol):
    """Observes the bytes of every connection, and may break a connection when bytes arrive."""

    def on_sent(self, endpoint: "Endpoint", data: bytes) -> None:
        """Take bytes that a program has written at this endpoint, before they are on their way."""

    def on_received(self, endpoint: "Endpoint", data: bytes) -> bool:
        """Take bytes that have arrived at this endpoint, before the program there gets them.

        Returns True if the interceptor has broken the connection: the bytes are then lost.
        """


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
        network: "SimulatedNetwork",
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
        self._finish(_RESET)

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
            each.close_from_peer(_RESET)

    def stop(self, *, silently: bool) -> None:
        """Drop the connection because this endpoint's host has stopped. With `silently` the peer does not notice."""
        self._note_end(f"{self.host} had stopped")
        self._is_closing = True
        self._vanished = silently
        if not silently:
            self._network.loop.call_later(self._network.delay_s(), self.peer.close_from_peer, _RESET)
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


class SimulatedListener:
    """A port that accepts connections, in place of an asyncio.Server."""

    def __init__(
        self, network: "SimulatedNetwork", host: str, address: tuple[str, int], factory: ProtocolFactory
    ) -> None:
        self.host, self.factory = host, factory
        self._network, self._address = network, address
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        self._network.listeners.pop(self._address, None)

    async def wait_closed(self) -> None:
        """Return at once: closing takes no time."""


class SimulatedNetwork:
    """Hosts, known by their names, with a link in each direction between any two of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random, planned: NetworkPlan) -> None:
        self.loop = loop
        self._rng = rng
        self._planned = planned
        self.restore_latency()
        self.listeners: dict[tuple[str, int], SimulatedListener] = {}
        self.interceptor: ConnectionInterceptor | None = None
        self.messages: MessageLog | None = None
        """The log of lost and late messages; None if the run is not recorded."""
        self.on_connection_lost: Callable[[asyncio.Protocol], None] = lambda protocol: None
        """Called with the server's protocol of each connection that is over."""
        self._links: dict[tuple[str, str], Link] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        """Number of cuts in force, by pair of hosts. ALL_HOSTS in a pair means all links from or to the other host."""
        self._endpoints: dict[Endpoint, None] = {}
        self._unnoticed: dict[str, list[Endpoint]] = {}
        """By name of a stopped host, the endpoints that have sent bytes to it; it resets them when it is up again."""

    # For programs

    async def listen(self, host: str, factory: ProtocolFactory, address: str, port: int) -> SimulatedListener:
        """Let a program on the machine `host` accept connections to `address` and `port`.

        Raises OSError if another program listens at this address and port.
        """
        if (address, port) in self.listeners:
            raise OSError(f"address already in use: {address}:{port}")
        listener = self.listeners[address, port] = SimulatedListener(self, host, (address, port), factory)
        for endpoint in self._unnoticed.pop(host, ()):
            self.on_unknown_connection(endpoint)
        return listener

    async def connect(self, host: str, factory: ProtocolFactory, address: str, port: int) -> None:
        """Connect a client on `host`; waits while the link is cut.

        Raises ConnectionRefusedError if nothing listens at the address and port.
        """
        await self._reach(host, address, port)
        listener = self.listeners.get((address, port))
        if listener is None:
            # Clients put this text into the reason of their next JoinGroup, which is stored.
            raise ConnectionRefusedError(f"nothing listens on {address}:{port}")
        client_link, server_link = self._link(host, listener.host), self._link(listener.host, host)
        client = Endpoint(self, host, listener.host, client_link, port, is_client=True)
        server = Endpoint(self, listener.host, host, server_link, port)
        client.peer, server.peer = server, client
        server.open(listener.factory())
        client.open(factory())
        self._endpoints[client] = self._endpoints[server] = None

    async def _reach(self, host: str, address: str, port: int) -> None:
        """Wait until a packet of the host has arrived at the address: the time that a connection needs to be opened."""
        listener = self.listeners.get((address, port))
        arrived = asyncio.Event()
        if listener is None:
            self.loop.call_later(self.delay_s(), arrived.set)
        else:
            self._link(host, listener.host).send(arrived.set, self.delay_s())
        await arrived.wait()

    # Faults

    def restore_latency(self) -> None:
        """Return to the planned latency and jitter."""
        self.latency_ms, self.jitter_ms = self._planned.latency_ms, self._planned.jitter_ms

    def cut(self, host: str, other: str) -> None:
        """Cut the link from `host` to `other`; each cut needs its own `restore`. Either may be ALL_HOSTS."""
        self._cuts[host, other] = self._cuts.get((host, other), 0) + 1
        self._update_links()

    def restore(self, host: str, other: str) -> None:
        """Take back one cut of the link from `host` to `other`. If none is left, the bytes that waited are sent now."""
        self._cuts[host, other] = max(0, self._cuts.get((host, other), 0) - 1)
        self._update_links()

    def restore_all(self) -> None:
        """Open every link, and return to the planned latency and jitter."""
        self.restore_latency()
        self._cuts.clear()
        self._update_links()

    def reset_connections(self, host: str) -> None:
        """Reset all connections of a host; bytes in flight are lost."""
        for endpoint in self._endpoints_of(host):
            endpoint.reset(f"the connections of {host} were reset")

    def stop_host(self, host: str, *, silently: bool = False) -> None:
        """Stop a host: its connections and listeners are gone.

        Its peers see their connections end at once; with `silently`, only when they send something and the host is up
        again, or by their own timeouts.
        """
        for endpoint in self._endpoints_of(host):
            endpoint.stop(silently=silently)
        for address, listener in list(self.listeners.items()):
            if listener.host == host:
                del self.listeners[address]

    def _endpoints_of(self, host: str) -> list[Endpoint]:
        return [endpoint for endpoint in self._endpoints if endpoint.host == host]

    # For endpoints

    def delay_s(self) -> float:
        """Draw the delay of the next chunk of bytes."""
        delay_ms = self.latency_ms + self.jitter_ms * self._rng.random()
        planned = self._planned
        if planned.stall_share and self._rng.random() < planned.stall_share:
            delay_ms += planned.stall_ms * self._rng.random()
        return delay_ms / 1000

    def reason_for_delay(self) -> str:
        """Why a chunk of bytes that is sent now may take longer than planned; empty if nothing delays it."""
        is_slow = (self.latency_ms, self.jitter_ms) != (self._planned.latency_ms, self._planned.jitter_ms)
        return "the network was slow" if is_slow else "the network lost it once and sent it again"

    def on_unknown_connection(self, endpoint: Endpoint) -> None:
        """Handle bytes that have arrived at a host which does not have the connection, or is down.

        A host that is up resets the connection.
        """
        if any(listener.host == endpoint.peer_host for listener in self.listeners.values()):
            self.loop.call_later(self.delay_s(), endpoint.close_from_peer, _RESET)
        else:
            self._unnoticed.setdefault(endpoint.peer_host, []).append(endpoint)

    def remove(self, endpoint: Endpoint, protocol: asyncio.Protocol | None) -> None:
        """Forget an endpoint whose connection has ended; if it was a broker's, `on_connection_lost` gets its protocol
        object."""
        self._endpoints.pop(endpoint, None)
        if self.messages is not None:
            self.messages.forget(endpoint)
        if protocol is not None and not endpoint.is_client:
            self.on_connection_lost(protocol)

    def _link(self, host: str, other: str) -> Link:
        link = self._links.get((host, other))
        if link is None:
            link = self._links[host, other] = Link(self.loop, is_open=self._is_open(host, other))
        return link

    def _is_open(self, host: str, other: str) -> bool:
        cuts = ((host, other), (host, ALL_HOSTS), (ALL_HOSTS, other))
        return host == other or not any(self._cuts.get(cut) for cut in cuts)

    def _update_links(self) -> None:
        for (host, other), link in self._links.items():
            link.set_open(self._is_open(host, other))
