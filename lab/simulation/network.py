"""A network in memory, as TCP shows it to programs: order holds, nothing is lost or doubled while a connection lives.

What can go wrong is what goes wrong with TCP: bytes take their time; they come later, when a way that was cut is open
again; a connection breaks, and whoever waits for an answer cannot know whether the request was heard.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

from regroup.lab.plan.plan import NetworkPlan
from regroup.lab.simulation.endpoint import End, Way
from regroup.lab.simulation.packet_tap import Wiretap

Factory: TypeAlias = Callable[[], asyncio.Protocol]
EVERYBODY: Final = "everybody"


class Listening:
    """A port that takes connections, in the place of an asyncio.Server."""

    def __init__(self, network: "Network", host: str, address: tuple[str, int], factory: Factory) -> None:
        self.host, self.factory = host, factory
        self._network, self._address = network, address
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        self._network.listeners.pop(self._address, None)

    async def wait_closed(self) -> None:
        """It is closed at once."""


class Network:
    """Hosts are names. Between any two of them lead two ways, one in each direction.

    A piece of bytes takes `latency_ms`, and by chance up to `jitter_ms` more; now and then one stalls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: Random, planned: NetworkPlan) -> None:
        self._loop = loop
        self._chance = chance
        self._planned = planned
        self._orphans: dict[str, list[End]] = {}
        self.as_planned()
        self.listeners: dict[tuple[str, int], Listening] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        self._connections: dict[End, None] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self.wiretap: Wiretap | None = None
        self.connection_lost: Callable[[asyncio.Protocol], None] = lambda protocol: None
        """Told by the server's end of each connection that is over."""

    # What programs do

    async def listen(self, host: str, factory: Factory, address: str, port: int) -> Listening:
        """`host` is whose port this is; `address` and `port` are what others connect to."""
        if (address, port) in self.listeners:
            raise OSError(f"{address}:{port} is taken")
        listening = self.listeners[address, port] = Listening(self, host, (address, port), factory)
        for orphan in self._orphans.pop(host, ()):
            self.in_vain(orphan)
        return listening

    async def connect(self, host: str, factory: Factory, address: str, port: int) -> None:
        """A connection from a host to a port. OSError if nobody listens there; waits while the way is cut."""
        await self._travel(host, address, port)
        listening = self.listeners.get((address, port))
        if listening is None:
            raise ConnectionRefusedError(f"nobody listens on {address}:{port}")
        there, back = self._way(host, listening.host), self._way(listening.host, host)
        ours = End(self, host, listening.host, there, port, is_client=True)
        theirs = End(self, listening.host, host, back, port)
        ours.peer, theirs.peer = theirs, ours
        theirs.open(listening.factory())
        ours.open(factory())
        self._connections[ours] = self._connections[theirs] = None

    async def _travel(self, host: str, address: str, port: int) -> None:
        listening = self.listeners.get((address, port))
        arrived = self._loop.create_future()
        if listening is None:
            self._loop.call_later(self.delay_s(), _arrive, arrived)
        else:
            self._way(host, listening.host).after_it_opens(partial(_arrive, arrived), self.delay_s())
        await arrived

    # What happens to it

    def as_planned(self) -> None:
        """Bytes take the time that they take when nothing is wrong."""
        self.latency_ms, self.jitter_ms = self._planned.latency_ms, self._planned.jitter_ms

    def cut(self, host: str, other: str) -> None:
        """Nothing passes from `host` to `other` until `mend`; cuts of the same way add up."""
        self._cuts[host, other] = self._cuts.get((host, other), 0) + 1
        self._look_at_ways()

    def mend(self, host: str, other: str) -> None:
        """Take one cut back. What was held up arrives now."""
        self._cuts[host, other] = max(0, self._cuts.get((host, other), 0) - 1)
        self._look_at_ways()

    def mend_all(self) -> None:
        """Every way is open, and as quick as planned."""
        self.as_planned()
        self._cuts.clear()
        self._look_at_ways()

    def reset(self, host: str) -> None:
        """All connections of a host break; what was on its way in them is lost."""
        for end in [end for end in self._connections if end.host == host]:
            end.break_both("connection reset by peer")

    def kill(self, host: str, *, silently: bool = False) -> None:
        """The host is gone. Those at the other ends learn it at once, or, silently, only when they send something and
        the host is there again, or when they lose patience."""
        for end in [end for end in self._connections if end.host == host]:
            end.die(silently=silently)
        for address, listening in list(self.listeners.items()):
            if listening.host == host:
                del self.listeners[address]

    # For the ends

    def delay_s(self) -> float:
        """How long the next piece of bytes takes."""
        delay_ms = self.latency_ms + self.jitter_ms * self._chance.random()
        planned = self._planned
        if planned.stall_share and self._chance.random() < planned.stall_share:
            delay_ms += planned.stall_ms * self._chance.random()
        return delay_ms / 1000

    def is_up(self, host: str) -> bool:
        """Whether anything of a host's listens."""
        return any(listening.host == host for listening in self.listeners.values())

    def in_vain(self, end: End) -> None:
        """Bytes of this end have come to a host that knows nothing of the connection, or is not there."""
        if self.is_up(end.other):
            self.call_later(self.delay_s(), end.end, "connection reset by peer")
        else:
            self._orphans.setdefault(end.other, []).append(end)

    def forget(self, end: End, protocol: asyncio.Protocol | None) -> None:
        """A connection is over at this end."""
        self._connections.pop(end, None)
        if protocol is not None and not end.is_client:
            self.connection_lost(protocol)

    def call_later(self, delay_s: float, act: Callable[..., Any], *arguments: Any) -> None:
        self._loop.call_later(delay_s, act, *arguments)

    def call_at(self, at_s: float, act: Callable[..., Any], *arguments: Any) -> None:
        self._loop.call_at(at_s, act, *arguments)

    def time(self) -> float:
        return self._loop.time()

    def _way(self, host: str, other: str) -> Way:
        way = self._ways.get((host, other))
        if way is None:
            way = self._ways[host, other] = Way(self._loop)
            way.is_open = self._is_open(host, other)
        return way

    def _is_open(self, host: str, other: str) -> bool:
        asked = ((host, other), (host, EVERYBODY), (EVERYBODY, other))
        return host == other or not any(self._cuts.get(cut) for cut in asked)

    def _look_at_ways(self) -> None:
        for (host, other), way in self._ways.items():
            way.turn(self._is_open(host, other))


def _arrive(arrived: "asyncio.Future[None]") -> None:
    if not arrived.done():
        arrived.set_result(None)
