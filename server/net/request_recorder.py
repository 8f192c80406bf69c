"""The recorder as connections see it: the bytes of every request and its response, with their times.

A gate (`request_gate.py`) acts before the handler, and observers (`request_observer.py`) get decoded messages behind
it. A recorder gets bytes: also of requests that no handler sees, because they are undecodable, refused or answered from
the cache, and of those that are never answered. What it keeps is decoded when it is read (`server/recording/`).
"""

from typing import Protocol

import msgspec


class ExchangeRow(msgspec.Struct, array_like=True, gc=False, eq=False):
    """A request with its response, or a run of equal heartbeats. Times are epoch milliseconds.

    It changes until the request is answered, and with each heartbeat of the run. Frames are without their length, and
    may be cut.
    """

    number: int
    """1, 2, 3 … in the order in which a recorder has begun them."""
    connection: str
    client_host: str
    at_ms: int
    """When the request came; of a run, the first."""
    last_at_ms: int
    """When the last request of the run came."""
    request: bytes
    request_bytes: int
    """The length of the whole frame."""
    ended_at_ms: int | None = None
    """When the request was answered, or its connection closed without an answer; None while it waits."""
    response: bytes = b""
    response_bytes: int = 0
    """The length of the whole frame; 0 without a response."""
    closed: str = ""
    """Why there is no answer and the connection was closed; empty if there is one, or if none was expected."""
    fault: str = ""
    """What a fault rule did to the request."""
    count: int = 1
    """How many requests the run has; 0 if the row was merged into the one before."""


class RequestRecorder(Protocol):
    """Keeps the exchanges of all connections of a cluster. Each method returns at once."""

    def begin(self, connection: str, client_host: str, frame: bytes) -> ExchangeRow:
        """A request has come; nothing of it is decoded yet."""
        ...

    def answer(self, row: ExchangeRow, response: bytes | bytearray | None, previous: ExchangeRow | None) -> ExchangeRow:
        """The response is handed to the connection, with its length; None if the request expects none.

        `previous` is the last row of the connection. Returned is the row that has the exchange now: `previous` if both
        are equal heartbeats.
        """
        ...

    def repeat(self, row: ExchangeRow, count: int) -> None:
        """So many further requests, equal to that of the row, were answered in the same way."""
        ...

    def close(self, row: ExchangeRow, reason: str) -> None:
        """The connection is closed, and the request gets no answer."""
        ...

    def note_fault(self, row: ExchangeRow, effect: str) -> None:
        """A fault rule does something to the request."""
        ...
