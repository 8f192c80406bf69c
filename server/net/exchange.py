"""One request on its way to one answer."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from regroup.coordinator.serialization import Cause
from regroup.protocol.apis import APIS
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.server.net.cached_response import Again

if TYPE_CHECKING:
    from regroup.server.net.connection import Connection


class Exchange:
    """A request with all that is known of who asked.

    Exactly one of `reply`, `leave_unanswered` and `hang_up` is called for each exchange, now or later; a second call,
    or one after the client has left, does nothing. Until then the connection looks at no other request.
    """

    __slots__ = ("again", "connection", "header", "request", "when_lost")

    def __init__(self, connection: "Connection", header: RequestHeader, request: Message) -> None:
        self.connection = connection
        self.header = header
        self.request = request
        self.again: Again | None = None
        """Set before the reply: while it says so, the connection answers the same bytes in the same way by itself."""
        self.when_lost: Callable[[], None] | None = None
        """Called if the connection goes before the answer came: whoever keeps `reply` may stop waiting."""

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_host(self) -> str:
        """As Kafka shows it in DescribeGroups: `/127.0.0.1`."""
        return self.connection.client_host

    def reply(self, message: Message) -> None:
        """Answer with the response that belongs to the request; it is sent in the version that was asked in."""
        self.connection.finish(self, message)

    def leave_unanswered(self) -> None:
        """Go on with the next request: this one wanted no answer."""
        self.connection.finish(self, None)

    def hang_up(self, reason: str) -> None:
        """Close the connection, as Kafka does where no answer is possible."""
        self.connection.abandon(self, reason)

    def cause(self) -> bytes:
        """Who asked for what, to stand beside the events that it led to."""
        cause = Cause(
            api=APIS[self.header.api_key].name,
            connection=self.connection.name,
            correlation_id=self.header.correlation_id,
            client_id=self.header.client_id or "",
        )
        return msgspec.json.encode(cause)


Handler: TypeAlias = Callable[[Exchange], None]
"""Answers one kind of request. It returns at once; where the answer must wait, it keeps `exchange.reply` for later."""

Handlers: TypeAlias = Mapping[int, Handler]
"""By API key."""
