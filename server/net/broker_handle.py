"""The interface of a broker as its connections use it, and of a connection as its broker uses it."""

from typing import Protocol

from regroup.protocol.fields import Versions
from regroup.protocol.header import RequestHeader
from regroup.server.net.exchange import RequestHandler
from regroup.server.net.request_gate import RequestGate
from regroup.server.net.request_observer import RequestObservers
from regroup.server.net.request_recorder import RequestRecorder
from regroup.server.net.responses.response_buffer import UnreadBytes
from regroup.server.net.turns import TurnQueue


class OpenConnection(Protocol):
    """The part of a client's connection that the broker uses."""

    name: str
    client_host: str
    client_id: str
    """The client id in the last decoded request; empty before the first."""

    def stop(self) -> None:
        """Close the connection because the broker stops; responses that are ready are sent before."""

    def abort(self) -> None:
        """Close the connection at once; the request that is being handled gets no response."""

    def forget_cached_response(self) -> None:
        """Drop the connection's cached response, so that its next request is decoded and handled even if it equals the
        last one."""


class BrokerHandle(Protocol):
    """The part of a broker that its connections use."""

    max_frame_bytes: int
    max_response_bytes: int
    max_idle_s: float
    observers: RequestObservers
    """They are called with each exchange that has ended."""
    recorder: RequestRecorder | None
    """Keeps the bytes of requests and responses; None if exchanges are not recorded."""
    needs_whole_responses: bool
    """Whether each response must be written to the transport in one piece, as one MQTT message."""
    unread: UnreadBytes
    """Counts the bytes of responses that the clients of all brokers have not read."""
    turns: TurnQueue
    """The queue in which long requests of all connections get their turns."""

    @property
    def gate(self) -> RequestGate | None:
        """The gate that every request must pass before its handler is called; None if the broker has no gate."""

    def handler_for(self, header: RequestHeader) -> RequestHandler | None:
        """The function that handles requests of the header's API and version; None if the broker does not serve that
        version."""

    def refusal_of(self, header: RequestHeader) -> str:
        """Why the broker does not serve the header's API in the header's version, as text for the log."""

    def served_versions(self, api_key: int) -> Versions:
        """The versions in which the broker serves the API with this key."""

    def log_closed(self, connection: OpenConnection, reason: str) -> None:
        """Write to the log that the broker closes `connection`, with the reason."""

    def add_connection(self, connection: OpenConnection) -> None: ...

    def remove_connection(self, connection: OpenConnection) -> None: ...
