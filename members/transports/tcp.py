"""A transport to any broker that speaks Kafka's protocol over TCP.

One connection for any broker, one to the coordinator, one to each leader of partitions: what waits on one of them
(a parked JoinGroup, a long Fetch) holds up nothing on the others. The versions of each broker are asked for once a
connection (ApiVersions, KIP-511).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from regroup.members.consumer.effects import Address, Lane, Outgoing
from regroup.members.consumer.inputs import Answered, Unanswered
from regroup.members.transports.base import Reply, as_newest, as_of, version_for
from regroup.protocol.apis import APIS
from regroup.protocol.codec.codec import codec, decode
from regroup.protocol.codec.decoder import skip_tagged_fields
from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed, ProtocolError
from regroup.protocol.fields import NEWEST, Versions
from regroup.protocol.frames import FrameReader, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE_NAME: Final = "regroup"
SOFTWARE_VERSION: Final = "0.1.0"
CONNECT_TIMEOUT_S: Final = 10.0
RECONNECT_BACKOFF_S: Final = 0.05
RECONNECT_BACKOFF_MAX_S: Final = 1.0
API_VERSIONS: Final = 3


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """`host:port[,host:port…]`; an IPv6 host stands in brackets. ValueError says what is wrong."""
    return tuple(_parse_address(part.strip()) for part in text.split(","))


def _parse_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is no address; write host:port, for example localhost:9092")
    return Address(-1, host, int(port))


@dataclass(slots=True)
class _Waiting:
    """A request that was sent, or waits for the connection."""

    outgoing: Outgoing
    reply: Reply
    timer: asyncio.TimerHandle
    request: Message | None = None
    version: int = -1


class _Connection(asyncio.Protocol):
    """One connection, from the attempt to open it until it is lost. `lost` is told why, once."""

    def __init__(self, client_id: str, newest: Mapping[int, int], lost: Callable[["_Connection", str], None]) -> None:
        self._client_id = client_id
        self._newest = newest
        self._lost = lost
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._spoken: dict[int, Versions] | None = None
        self._correlation_id = 0
        self._asked_version = API_VERSIONS
        self._queue: list[_Waiting] = []
        self._in_flight: dict[int, _Waiting] = {}
        self.is_over = False

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.is_over:
            transport.abort()
        else:
            self._ask_versions(API_VERSIONS)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                if self._spoken is None:
                    self._learn_versions(frame)
                else:
                    self._read(frame)
        except ProtocolError as error:
            self.end(f"the broker's answer cannot be read: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(str(exc) if exc else "the broker closed the connection")

    # -- the transport calls these

    def send(self, waiting: _Waiting) -> None:
        """Send, or keep it until the broker has said what it speaks."""
        if self._spoken is None or self._transport is None:
            self._queue.append(waiting)
            return
        outgoing = waiting.outgoing
        key = outgoing.message.api_key
        version = version_for(outgoing.message, self._spoken.get(key, Versions(0, -1)))
        if version is None:
            _give_back(waiting, f"the broker speaks no known version of {_name(outgoing.message)}", unsupported=True)
            return
        waiting.request, waiting.version = as_of(outgoing.message, version), version
        self._correlation_id += 1
        header = RequestHeader(key, version, self._correlation_id, self._client_id)
        try:
            frame = encode_request(header, waiting.request)
        except ProtocolError as error:
            _give_back(waiting, str(error), unsupported=True)
            return
        self._in_flight[self._correlation_id] = waiting
        self._transport.write(frame)

    def end(self, reason: str, *, silently: bool = False) -> None:
        """Close, and answer for everything that waits, unless silently."""
        if self.is_over:
            return
        self.is_over = True
        if self._transport is not None:
            self._transport.abort()
        waiting = [*self._in_flight.values(), *self._queue]
        self._in_flight.clear()
        self._queue.clear()
        self._lost(self, reason)
        for each in waiting:
            each.timer.cancel()
            if not silently:
                each.reply(Unanswered(each.outgoing.number, reason))

    # -- what came

    def _ask_versions(self, version: int) -> None:
        assert self._transport is not None
        self._asked_version = version
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        header = RequestHeader(ApiVersionsRequest.api_key, version, 0, self._client_id)
        self._transport.write(encode_request(header, request))

    def _learn_versions(self, frame: bytes) -> None:
        # A broker that does not know our version answers in the oldest one: code 35, and what it speaks instead.
        if int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION and self._asked_version:
            self._ask_versions(0)
            return
        answer = decode(ApiVersionsResponse, self._asked_version, frame[4:])
        if answer.error_code:
            raise Malformed(f"ApiVersions was refused: {ErrorCode.named(answer.error_code)}")
        self._spoken = {
            each.api_key: Versions(each.min_version, min(each.max_version, self._newest.get(each.api_key, NEWEST)))
            for each in answer.api_keys
        }
        queue, self._queue = self._queue, []
        for waiting in queue:
            self.send(waiting)

    def _read(self, frame: bytes) -> None:
        waiting = self._in_flight.pop(int.from_bytes(frame[:4], "big"), None)
        if waiting is None or waiting.request is None:
            raise Malformed("an answer to a question that was not asked")
        waiting.timer.cancel()
        try:
            response = _decode(waiting.request, waiting.version, frame)
        except ProtocolError as error:
            waiting.reply(Unanswered(waiting.outgoing.number, str(error)))
            raise
        newest = as_newest(waiting.request, response, waiting.version)
        waiting.reply(Answered(waiting.outgoing.number, newest))


def _decode(request: Message, version: int, frame: bytes) -> Message:
    """The body. Bytes behind it are left alone as in the Java client: some brokers send a few too many."""
    api = APIS[request.api_key]
    position = 4
    if api.response_header_is_flexible(version):
        try:
            position = skip_tagged_fields(frame, position)
        except (IndexError, ValueError) as error:
            raise Malformed(f"response header, tagged fields: {error}") from None
    return codec(api.response, version).decode(frame, position)[0]


def _give_back(waiting: _Waiting, reason: str, *, unsupported: bool) -> None:
    waiting.timer.cancel()
    waiting.reply(Unanswered(waiting.outgoing.number, reason, unsupported))


def _name(message: Message) -> str:
    return type(message).__name__.removesuffix("Request")


Connect: TypeAlias = Callable[[Callable[[], asyncio.Protocol], str, int], Awaitable[Any]]
"""Given what makes the protocol, a host and a port, opens a connection. OSError if there is nobody."""


class TcpTransport:
    """Connections are opened when they are needed, and again, after a growing pause, when they were lost.

    `newest` holds APIs back at older versions, to play a client from before a KIP.
    `connect` opens connections elsewhere than on this machine's network, as on a simulated one.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        client_id: str = "regroup",
        newest: Mapping[int, int] | None = None,
        connect: Connect | None = None,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._client_id = client_id
        self._newest = newest or {}
        self._connect = connect
        self._turn = 0
        self._connections: dict[tuple[Lane, Address | None], _Connection] = {}
        self._dialing: dict[asyncio.Task[None], None] = {}
        self._failures: dict[tuple[Lane, Address | None], int] = {}
        self.last_error: str | None = None

    def send(self, outgoing: Outgoing, reply: Reply) -> None:
        """Send on the lane's connection; without an answer in time that connection is given up."""
        place = (outgoing.lane, outgoing.address)
        connection = self._connections.get(place) or self._open(place)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(outgoing.timeout_ms / 1000, connection.end, "no answer in time")
        connection.send(_Waiting(outgoing, reply, timer))

    def _open(self, place: tuple[Lane, Address | None]) -> _Connection:
        def lost(connection: _Connection, reason: str) -> None:
            self.last_error = reason
            if self._connections.get(place) is connection:
                del self._connections[place]

        connection = _Connection(self._client_id, self._newest, lost)
        self._connections[place] = connection
        task = asyncio.get_running_loop().create_task(self._dial(place, connection))
        self._dialing[task] = None
        task.add_done_callback(lambda done: self._dialing.pop(done, None))
        return connection

    async def _dial(self, place: tuple[Lane, Address | None], connection: _Connection) -> None:
        failures = self._failures.get(place, 0)
        if failures:
            await asyncio.sleep(min(RECONNECT_BACKOFF_S * 2 ** (failures - 1), RECONNECT_BACKOFF_MAX_S))
        address = place[1] or self._next_bootstrap()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                connect = self._connect or asyncio.get_running_loop().create_connection
                await connect(lambda: connection, address.host, address.port)
        except (OSError, TimeoutError) as error:
            self._failures[place] = min(failures + 1, 10)
            reason = str(error) or "no connection in time"
            connection.end(f"{address.host}:{address.port} cannot be reached: {reason}")
        else:
            self._failures.pop(place, None)

    def _next_bootstrap(self) -> Address:
        self._turn += 1
        return self._bootstrap[(self._turn - 1) % len(self._bootstrap)]

    def hang_up(self) -> None:
        """Drop the connection to the coordinator without a word to those who wait there."""
        for (lane, _), connection in list(self._connections.items()):
            if lane is Lane.COORDINATOR:
                connection.end("hung up", silently=True)

    async def close(self) -> None:
        """Drop all connections, also those that are being opened."""
        for connection in list(self._connections.values()):
            connection.end("closed", silently=True)
        for task in list(self._dialing):
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                continue
