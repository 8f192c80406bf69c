"""One request of a client, and the ways in which it can be answered."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from regroup.coordinator.serialization import Cause
from regroup.protocol.apis import APIS
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.net.responses.cached_response import StillValid
from regroup.server.net.turns import Turns


class ExchangeOwner(Protocol):
    """The part of a connection that its exchanges use."""

    name: str
    client_host: str

    def finish(self, exchange: "Exchange", response: Message | None) -> None:
        """Take the response to the request of `exchange`, to send it; None if the request expects no response."""

    def continue_before_response(self, exchange: "Exchange") -> None:
        """Handle the connection's next request although the request of `exchange` has no response yet."""

    def close_unanswered(self, exchange: "Exchange", reason: str) -> None:
        """Close the connection instead of sending a response to the request of `exchange`; `reason` is for the log."""

    def run_work(self, exchange: "Exchange", turns: Turns) -> None:
        """Run the work `turns`, which belongs to the request of `exchange`, in portions between those of other
        connections. The work is cancelled when the connection ends."""


class Exchange:
    """A request that has no response yet, and what is known about its sender.

    One of `respond`, `finish_without_response` and `close_connection` is called for each exchange, now or later.
    Further calls, and calls after the client has disconnected, have no effect. Until then the connection handles no
    other request, unless `allow_next` is called.
    """

    __slots__ = (
        "_owner",
        "client_host",
        "close_behind",
        "connection_name",
        "edit_frame",
        "frame",
        "header",
        "intercept",
        "is_answered",
        "is_handled_if_lost",
        "is_queued",
        "on_connection_lost",
        "request",
        "row",
        "still_valid",
    )

    def __init__(self, header: RequestHeader, request: Message, owner: ExchangeOwner) -> None:
        self.header = header
        self.request = request
        self.connection_name = owner.name
        self.client_host = owner.client_host
        """The client's address as Kafka shows it in DescribeGroups: `/127.0.0.1`."""
        self.is_answered = False
        """Whether a response was given, which may still be encoded or sent."""
        self.still_valid: StillValid | None = None
        """May be set before `respond`: while it returns True, the connection answers repetitions of the request, byte
        for byte, with the same response."""
        self.on_connection_lost: Callable[[], object] | None = None
        """Called if the connection is lost before the response, so that a handler that holds the exchange can drop
        it."""
        self.intercept: Callable[[Message | None], None] | None = None
        """Called once with the next response, which is not sent then; with None for a request that expects none. Used
        by fault rules."""
        self.is_handled_if_lost = False
        """Whether the handler is called even if the client has disconnected, because a gate passes the request on
        later. Kafka also handles requests that it has read."""
        self.edit_frame: Callable[[bytearray], bytearray] | None = None
        """May be set before `respond`: returns the bytes that are sent in place of the encoded response, which it gets
        with its length prefix."""
        self.close_behind = ""
        """May be set before `respond`: the reason for which the connection is closed behind the response; empty to keep
        it open."""
        self.row: ExchangeRow | None = None
        """The recorded row of this exchange; None if exchanges are not recorded."""
        self.is_queued = False
        """Its response comes after those of other requests of the connection, which are not sent yet."""
        self.frame: bytearray | None = None
        """The encoded response of a queued exchange; None before it is given."""
        self._owner = owner

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def cause(self) -> Cause:
        """The request as the cause of events, in the form in which it is stored with each event that the request leads
        to."""
        return Cause(
            api=APIS[self.header.api_key].name,
            connection=self.connection_name,
            correlation_id=self.header.correlation_id,
            client_id=self.header.client_id or "",
        )

    def respond(self, response: Message) -> None:
        """Send `response` to the client, encoded in the version of the request."""
        if self.intercept is None:
            self._owner.finish(self, response)
        else:
            self._intercepted(response)

    def _intercepted(self, response: Message | None) -> None:
        intercept, self.intercept = self.intercept, None
        if intercept is not None:
            intercept(response)

    def allow_next(self) -> None:
        """Let the connection handle its next request before this one is answered. A handler calls it when the changes
        that this request makes are decided and a short response only waits until these changes are durable. Responses
        are still sent in the order of the requests."""
        self._owner.continue_before_response(self)

    def work(self, turns: Turns) -> None:
        """Run `turns`, the rest of a request's handling that may take long, in portions. It is for a request that was
        held first. An exception in the work closes this connection and no other."""
        self._owner.run_work(self, turns)

    def respond_when_durable(
        self, response: Message, when_durable: Callable[[Callable[[], None], Callable[[], None]], None]
    ) -> None:
        """Send the response once every event on which it depends is durable, or close the connection if the store fails
        before that. `when_durable(on_durable, on_lost)` arranges for one of the two functions to be called."""
        when_durable(lambda: self.respond(response), lambda: self.close_connection("the store failed"))

    def finish_without_response(self) -> None:
        """End the exchange without sending a response, because the request expects none. The connection then handles
        its next request."""
        if self.intercept is None:
            self._owner.finish(self, None)
        else:
            self._intercepted(None)

    def close_connection(self, reason: str) -> None:
        """Close the connection in place of a response, as Kafka does if it cannot send one. `reason` is for the log."""
        self._owner.close_unanswered(self, reason)


RequestHandler: TypeAlias = Callable[[Any, Exchange], Turns | None]
"""A function that handles the requests of one API, given the message and its exchange. It returns at once and may
respond later.

One whose work may be long returns it as `Turns`. The work ends with the connection: what is done by then stays done, as
after any request whose response is lost."""

RequestHandlers: TypeAlias = Mapping[int, RequestHandler]
"""Handlers by API key."""
