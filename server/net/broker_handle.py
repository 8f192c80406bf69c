"""The interface of a broker as its connections use it, and of a connection as its broker uses it."""

from typing import Protocol

from regroup.protocol.fields import Versions
from regroup.protocol.header import RequestHeader
from regroup.server.net.exchange import RequestHandler
from regroup.server.net.request_gate import RequestGate
from regroup.server.net.request_observer import RequestObservers
from regroup.server.net.request_recorder import RequestRecorder
from regroup.server.net.response_buffer import UnreadBytes
from regroup.server.net.turns import TurnQueue


class OpenConnection(Protocol):
    """A connection as its broker uses it."""

    name: str
    client_host: str
    client_id: str
    """The client id in the last decoded request; empty before the first."""

    def stop(self) -> None:
        """Close because the broker stops; responses that are ready are still sent."""

    def abort(self) -> None:
        """Close at once; the current request gets no response."""

    def forget_cached_response(self) -> None:
        """Decode the next request even if it repeats the last one."""


class BrokerHandle(Protocol):
    """The broker as its connections use it."""

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
        """Decides over each request before its handler is called; None for no gate."""

    def handler_for(self, header: RequestHeader) -> RequestHandler | None:
        """The handler of this API in this version; None if the broker does not serve it."""

    def refusal_of(self, header: RequestHeader) -> str:
        """Why the broker does not serve this API in this version."""

    def served_versions(self, api_key: int) -> Versions:
        """The versions in which an API is served."""

    def log_closed(self, connection: OpenConnection, reason: str) -> None:
        """Log why a connection is closed."""

    def add_connection(self, connection: OpenConnection) -> None: ...

    def remove_connection(self, connection: OpenConnection) -> None: ...
