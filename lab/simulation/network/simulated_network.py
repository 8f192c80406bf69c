"""A simulated network in memory that behaves like TCP: while a connection lasts, bytes arrive in order and once.

The faults are those of TCP. Bytes are delayed; bytes on a cut link are held back until it is restored; a connection is
reset, and a client that waits for a response cannot know whether its request arrived.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from regroup.lab.plan.plan import NetworkPlan
from regroup.lab.plan.steps import ALL_HOSTS
from regroup.lab.simulation.network.endpoint import RESET, ConnectionInterceptor, Endpoint, Link
from regroup.lab.simulation.network.message_log import MessageLog

ProtocolFactory: TypeAlias = Callable[[], asyncio.Protocol]


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
            self.loop.call_later(self.delay_s(), endpoint.close_from_peer, RESET)
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
