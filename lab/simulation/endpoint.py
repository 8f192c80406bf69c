"""One end of a simulated connection, in the place of an asyncio.Transport, and the way that its bytes take."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regroup.lab.simulation.network import Network


class Way:
    """From one host to another. While it is cut everything waits in front of it, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.is_open = True
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()

    def after_it_opens(self, act: Callable[[], None], delay_s: float) -> None:
        """Once it is open, and the delay is over."""
        if self.is_open:
            self._loop.call_later(delay_s, act)
        else:
            self._waiting.append((delay_s, act))

    def turn(self, is_open: bool) -> None:
        """Open or cut it."""
        self.is_open = is_open
        while self._waiting and self.is_open:
            delay_s, act = self._waiting.popleft()
            self._loop.call_later(delay_s, act)


class End(asyncio.Transport):
    """Bytes written here arrive at `peer`, in order, each piece after its own delay but never before the one ahead.

    `host` is where it stands, `other` where the peer does; `port` is the one that was called, by the client.
    """

    peer: "End"

    def __init__(
        self, network: "Network", host: str, other: str, way: Way, port: int, *, is_client: bool = False
    ) -> None:
        super().__init__()
        self.host, self.other, self.port = host, other, port
        self.is_client = is_client
        self._network = network
        self._way = way
        self._protocol: asyncio.Protocol | None = None
        self._arrives_s = 0.0
        self._on_its_way: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._arrived: deque[bytes] = deque()
        self._is_reading = True
        self._is_closing = False
        self._is_over = False
        self._died_silently = False

    def open(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    # What a protocol asks of its transport

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._send(self.peer.arrive, bytes(data))
            if self._network.wiretap is not None:
                self._network.wiretap.leaves(self, data)

    def close(self) -> None:
        """The peer gets what was written, and then the end."""
        if not self._is_closing:
            self._is_closing = True
            self._send(self.peer.end, "")
            self._network.call_later(0, self._lose, None)

    def abort(self) -> None:
        """As close: the peer learns that the connection was reset."""
        if not self._is_closing:
            self._is_closing = True
            self._send(self.peer.end, "connection reset by peer")
            self._network.call_later(0, self._lose, None)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        while self._arrived and self._is_reading:
            self._receive(self._arrived.popleft())

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.other, self.port) if name == "peername" else default

    # What the network does

    def _send(self, act: Callable[[Any], None], what: Any) -> None:
        """Order holds: nothing overtakes what was sent before it, whichever timer rings first."""
        self._on_its_way.append((act, what))
        self._arrives_s = max(self._network.time() + self._network.delay_s(), self._arrives_s)
        self._network.call_at(self._arrives_s, self._cross)

    def _cross(self) -> None:
        if self._way.is_open:
            act, what = self._on_its_way.popleft()
            act(what)
        else:
            self._way.after_it_opens(self._cross, 0.0)

    def arrive(self, data: bytes) -> None:
        """A piece of bytes has come."""
        if self._died_silently:
            self._network.in_vain(self.peer)
            return
        wiretap = self._network.wiretap
        if self._is_over or (wiretap is not None and wiretap.arrives(self, data)):
            return
        if self._is_reading:
            self._receive(data)
        else:
            self._arrived.append(data)

    def _receive(self, data: bytes) -> None:
        if not self._is_over and self._protocol is not None:
            self._protocol.data_received(data)

    def end(self, reason: str = "") -> None:
        """The peer has closed or is gone."""
        self._is_closing = True
        self._lose(ConnectionResetError(reason) if reason else None)

    def break_both(self, reason: str) -> None:
        """The connection breaks in the middle: both ends learn it, and what was on its way is lost."""
        for each in (self, self.peer):
            each.end(reason)

    def die(self, *, silently: bool) -> None:
        """The host of this end is gone: nothing it says arrives any more."""
        self._is_closing = True
        self._died_silently = silently
        if not silently:
            self._network.call_later(self._network.delay_s(), self.peer.end, "connection reset by peer")
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._network.forget(self, self._protocol)
        if self._protocol is not None:
            self._protocol.connection_lost(error)
