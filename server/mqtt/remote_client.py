"""A client over MQTT: its connections to the brokers, and the member that it is."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from regroup.mqtt.transport import MqttByteTransport
from regroup.protocol.header import RequestHeader
from regroup.server.broker import Broker
from regroup.server.mqtt.connection_losses import ConnectionLosses
from regroup.server.mqtt.routing import GROUP_APIS
from regroup.server.net.connection import Connection
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.request_gate import RequestGate
from regroup.server.net.turns import Turns

MAX_RESPONSE_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Size limit of a response. An MQTT broker disconnects the coordinator for a message beyond its own limit."""
_MAX_RECENT_REQUESTS: Final = 256
"""Requests that are recognized when MQTT delivers them twice; a client has fewer in flight."""
MAX_HELD_BYTES: Final = 1024 * 1024
"""Requests that may wait while the connection reads nothing; an MQTT client cannot be made to send less."""


class MessageTransport(MqttByteTransport):
    """The transport of one of the broker's connections to a remote client.

    `on_close(transport, was_idle)` is called when the broker closes the connection: because it was idle, or because of
    an error that the client must learn of.
    """

    def __init__(
        self,
        client_host: str,
        send: Callable[[bytes], object],
        on_close: Callable[["MessageTransport", bool], object],
    ) -> None:
        super().__init__(
            send,
            lambda: asyncio.get_running_loop().call_soon(self._finish_close),
            {"peername": (client_host, 0)},
        )
        self._on_broker_close = on_close
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._is_paused = False
        self._was_idle = False

    def receive(self, data: bytes) -> None:
        """Hand a request to the connection, or hold it; a client that sends too many is disconnected."""
        if not self._is_paused or self._is_closing:
            super().receive(data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > MAX_HELD_BYTES:
            self.close()

    def disconnect(self) -> None:
        """The client has disconnected: nothing more is sent to it."""
        self._send = self._on_broker_close = _ignore
        self.abort()

    # -- what a connection calls

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        held, self._held, self._held_bytes = self._held, deque(), 0
        for data in held:
            self.receive(data)

    def abort(self) -> None:
        """Close; a connection aborts its transport when it was idle for too long."""
        self._was_idle = not self._is_closing
        self.close()

    def _finish_close(self) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(None)
        self._on_broker_close(self, self._was_idle)


def _ignore(*arguments: Any) -> None: ...


class RemoteClient:
    """A client in one incarnation. It has a connection to a broker for each queue of requests."""

    def __init__(self, name: str, incarnation: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.last_correlation_id = -(2**31) - 1
        self._recent: deque[tuple[int, int]] = deque(maxlen=_MAX_RECENT_REQUESTS)
        """Correlation ids and hashes of the last requests."""
        self.member: tuple[str, str] | None = None
        """Group id and member id of its last request."""
        self.transports: dict[tuple[int, int], MessageTransport] = {}
        """Transports by node id and queue."""

    def note_request(self, correlation_id: int, frame: bytes) -> None:
        self.last_correlation_id = correlation_id
        self._recent.append((correlation_id, hash(frame)))

    def repeats(self, correlation_id: int, frame: bytes) -> bool:
        """Whether this is one of the last requests once more, byte for byte."""
        return correlation_id <= self.last_correlation_id and (correlation_id, hash(frame)) in self._recent

    def disconnect(self) -> None:
        """Close all connections; open requests get no response."""
        transports, self.transports = self.transports, {}
        for transport in transports.values():
            transport.disconnect()

    def remove_transport(self, transport: MessageTransport) -> None:
        """Forget an idle connection; the next request of its queue opens a new one."""
        self.transports = {place: each for place, each in self.transports.items() if each is not transport}


class ObservedBroker:
    """A broker as a remote client's connections see it: it notes which member sends a request."""

    def __init__(
        self,
        client: RemoteClient,
        broker: Broker,
        losses: ConnectionLosses,
        log_refusal: Callable[[str], object],
    ) -> None:
        self._log_refusal = log_refusal
        self._client = client
        self._broker = broker
        self._losses = losses
        self.max_frame_bytes, self.max_idle_s = broker.max_frame_bytes, broker.max_idle_s
        self.max_response_bytes = min(broker.max_response_bytes, MAX_RESPONSE_MESSAGE_BYTES)
        self.needs_whole_responses = True
        self.turns, self.unread = broker.turns, broker.unread
        self.served_versions, self.refusal_of = broker.served_versions, broker.refusal_of
        self.add_connection, self.remove_connection = broker.add_connection, broker.remove_connection
        self.observers, self.recorder = broker.observers, broker.recorder

    @property
    def gate(self) -> RequestGate | None:
        return self._broker.gate

    def handler_for(self, header: RequestHeader) -> RequestHandler | None:
        handler = self._broker.handler_for(header)
        if handler is None or header.api_key not in GROUP_APIS:
            return handler

        def note_and_handle(request: Any, exchange: Exchange) -> Turns | None:
            group_id, member_id = getattr(request, "group_id", ""), getattr(request, "member_id", "")
            if group_id and member_id:
                self._client.member = group_id, member_id
                self._losses.clear(group_id, member_id)
            return handler(request, exchange)

        return note_and_handle

    def log_closed(self, connection: Connection, reason: str) -> None:
        self._log_refusal(f"a connection of client {self._client.name[:80]!r} is closed: {reason}")
