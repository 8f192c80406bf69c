"""A client from afar, in one of its incarnations, and what the coordinator's side learns of it."""

from regroup.protocol.fields import Versions
from regroup.protocol.header import RequestHeader
from regroup.server.broker import Broker
from regroup.server.mqtt.deaths import Deaths
from regroup.server.mqtt.pipe import Pipe
from regroup.server.mqtt.routing import GROUP_APIS
from regroup.server.net.connection import Connection
from regroup.server.net.exchange import Exchange, Handler


class Visitor:
    """`member` is group and member id, as it last said; `pipes` go to a broker, each with one row of requests."""

    def __init__(self, name: str, incarnation: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.last_correlation_id = -(2**31) - 1
        self.member: tuple[str, str] | None = None
        self.pipes: dict[tuple[int, int], Pipe] = {}

    def cut(self) -> None:
        """Nobody listens to what was asked: all connections are lost."""
        pipes, self.pipes = self.pipes, {}
        for pipe in pipes.values():
            pipe.cut()

    def forget(self, pipe: Pipe) -> None:
        """One connection was closed for idleness; the next request of its kind opens another."""
        self.pipes = {place: each for place, each in self.pipes.items() if each is not pipe}

    def desk(self, broker: Broker, deaths: Deaths) -> "Desk":
        """The broker as this client's connections see it."""
        return Desk(self, broker, deaths)


class Desk:
    """A broker's desk at which one notes who is speaking: a sign of life, and whom a last will would be about."""

    def __init__(self, visitor: Visitor, broker: Broker, deaths: Deaths) -> None:
        self._visitor = visitor
        self._broker = broker
        self._deaths = deaths
        self.max_frame_bytes = broker.max_frame_bytes
        self.max_idle_s = broker.max_idle_s

    def handler_of(self, header: RequestHeader) -> Handler | None:
        handler = self._broker.handler_of(header)
        if handler is None or header.api_key not in GROUP_APIS:
            return handler

        def note_and_handle(exchange: Exchange) -> None:
            self._note(exchange)
            handler(exchange)

        return note_and_handle

    def _note(self, exchange: Exchange) -> None:
        group_id = getattr(exchange.request, "group_id", "")
        member_id = getattr(exchange.request, "member_id", "")
        if group_id and member_id:
            self._visitor.member = group_id, member_id
            self._deaths.lives(group_id, member_id)

    def versions_of(self, api_key: int) -> Versions:
        return self._broker.versions_of(api_key)

    def opened(self, connection: Connection) -> None:
        self._broker.opened(connection)

    def closed(self, connection: Connection) -> None:
        self._broker.closed(connection)
