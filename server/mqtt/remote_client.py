"""A remote client over MQTT: its connections to the brokers, and the member for which it sends requests."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from regroup.mqtt.transport import MqttByteTransport
from regroup.protocol.header import RequestHeader
from regroup.server.broker import Broker
from regroup.server.mqtt.connection_losses import ConnectionLosses
from regroup.server.mqtt.routing import GROUP_APIS
from regroup.server.net.broker_handle import OpenConnection
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.request_gate import RequestGate
from regroup.server.net.turns import Turns

MAX_RESPONSE_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of a response. An MQTT broker may disconnect the coordinator for a longer message."""
_MAX_RECENT_REQUESTS: Final = 256
"""How many requests are remembered, to recognize one that MQTT delivers twice; a client has fewer in flight."""
MAX_HELD_BYTES: Final = 1024 * 1024
"""The most bytes of requests that wait while the connection reads nothing; an MQTT client cannot be slowed down."""


class MessageTransport(MqttByteTransport):
    """The transport of one connection between a broker and a remote client: bytes in MQTT messages in place of a
    socket.

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
        """Pass the bytes of a request to the connection, or keep them while the connection has paused reading. A client
        that sends too many requests meanwhile is disconnected."""
        if not self._is_paused or self._is_closing:
            super().receive(data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > MAX_HELD_BYTES:
            self.close()

    def disconnect(self) -> None:
        """Close the transport because the client has disconnected: nothing more is sent to it."""
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
        """Close the transport because the connection was idle for too long, unless it is closing already."""
        self._was_idle = not self._is_closing
        self.close()

    def _finish_close(self) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(None)
        self._on_broker_close(self, self._was_idle)


def _ignore(*arguments: Any) -> None: ...


class RemoteClient:
    """A client with a given name and incarnation. It has one connection to a broker for each queue of its requests."""

    def __init__(self, name: str, incarnation: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.last_correlation_id = -(2**31) - 1
        self._recent: deque[tuple[int, int]] = deque(maxlen=_MAX_RECENT_REQUESTS)
        """Correlation ids and hashes of the last requests, to recognize one that MQTT delivers twice."""
        self.member: tuple[str, str] | None = None
        """Group id and member id of the client's last request about a group; None before it."""
        self.transports: dict[tuple[int, int], MessageTransport] = {}
        """Transports by node id of the broker and queue."""

    def note_request(self, correlation_id: int, frame: bytes) -> None:
        self.last_correlation_id = correlation_id
        self._recent.append((correlation_id, hash(frame)))

    def repeats(self, correlation_id: int, frame: bytes) -> bool:
        """Whether this request equals, byte for byte, one of the last requests of the client. The MQTT broker may
        deliver a message twice."""
        return correlation_id <= self.last_correlation_id and (correlation_id, hash(frame)) in self._recent

    def disconnect(self) -> None:
        """Close all connections of the client; its requests that have no response yet get none."""
        transports, self.transports = self.transports, {}
        for transport in transports.values():
            transport.disconnect()

    def remove_transport(self, transport: MessageTransport) -> None:
        """Drop a transport whose connection was idle; the next request of the same queue opens another one."""
        self.transports = {place: each for place, each in self.transports.items() if each is not transport}


class ObservedBroker:
    """A broker as seen by the connections of one remote client. It notes for which member the client sends requests,
    and that this member's connection is not lost."""

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

    def log_closed(self, connection: OpenConnection, reason: str) -> None:
        self._log_refusal(f"a connection of client {self._client.name[:80]!r} is closed: {reason}")
