"""The interface of a recorder, which keeps the bytes of every request and its response, with their times.

A gate (`request_gate.py`) acts before the handler, and observers (`request_observer.py`) get decoded messages behind
it. A recorder gets bytes: also of requests that no handler sees, because they are undecodable, refused or answered from
the cache, and of those that are never answered. What it keeps is decoded when it is read (`server/recording/`).
"""

from typing import Protocol

import msgspec


class ExchangeRow(msgspec.Struct, array_like=True, gc=False, eq=False):
    """A recorded request with its response, or a run of equal heartbeats. Times are epoch milliseconds.

    It changes until the request is answered, and with each heartbeat of the run. Frames are without their length, and
    may be cut.
    """

    number: int
    """Rows of a recorder count 1, 2, 3 … in the order in which their requests came."""
    connection: str
    client_host: str
    at_ms: int
    """When the request came; for a run, when its first request came."""
    last_at_ms: int
    """When the last request of the run came; for a single request, when it came."""
    request: bytes
    request_bytes: int
    """The length of the whole request frame in bytes, even if `request` was cut."""
    ended_at_ms: int | None = None
    """When the request was answered, or its connection closed without an answer; None while it waits."""
    response: bytes = b""
    response_bytes: int = 0
    """The length of the whole response frame in bytes; 0 if there is no response."""
    closed: str = ""
    """Why the connection was closed without an answer; empty if there is an answer, or none was expected."""
    fault: str = ""
    """What a fault rule did to the request; empty if none hit it."""
    count: int = 1
    """How many requests the run has; 0 if the row was merged into the row before."""


class RequestRecorder(Protocol):
    """Stores the bytes of all requests and responses of a cluster, with their times. Each method returns at once."""

    def begin(self, connection: str, client_host: str, frame: bytes) -> ExchangeRow:
        """Begin a row for a request that has arrived on `connection` and is not decoded yet; returns the row. `frame`
        has the bytes of the request, `client_host` is the address of the client."""
        ...

    def answer(self, row: ExchangeRow, response: bytes | bytearray | None, previous: ExchangeRow | None) -> ExchangeRow:
        """Note the response when it is passed to the connection, with its length prefix; None if the request expects
        none.

        `previous` is the last row of the connection. Returned is the row that has the exchange now: `previous` if both
        are equal heartbeats.
        """
        ...

    def repeat(self, row: ExchangeRow, count: int) -> None:
        """Count `count` further requests that were equal to that of the row and were answered in the same way."""
        ...

    def close(self, row: ExchangeRow, reason: str) -> None:
        """Record that the request of this row gets no response because its connection is closed; `reason` says why it
        is closed."""
        ...

    def note_fault(self, row: ExchangeRow, effect: str) -> None:
        """Record in the row what a fault rule does to its request; `effect` is that in a few words, such as `drop
        answer`."""
        ...
