"""A transport to any broker that speaks Kafka's protocol over TCP.

It opens one connection for any broker, one to the coordinator and one to each leader of partitions: a held response
(JoinGroup, a long Fetch) delays nothing on the others. Each connection asks for the broker's versions first
(ApiVersions, KIP-511).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from typing import Any, Final, TypeAlias, cast

from regroup.members.consumer.effects import NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.base import TransportCallback, choose_version, from_version, to_version
from regroup.notation.addresses import parse_host_port
from regroup.protocol.apis import APIS
from regroup.protocol.codec.codec import codec, decode
from regroup.protocol.codec.decoder import skip_tagged_fields
from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed, ProtocolError
from regroup.protocol.fields import NEWEST, Versions
from regroup.protocol.frames import FrameReader, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)
from regroup.protocol.messages.group import HeartbeatResponse

__all__ = ["parse_bootstrap", "ConnectionOpener", "TcpTransport"]

SOFTWARE_NAME: Final = "regroup"
SOFTWARE_VERSION: Final = "0.2.0"
CONNECT_TIMEOUT_S: Final = 10.0
REPEATED_RESPONSES: Final = frozenset({MetadataResponse, FindCoordinatorResponse, HeartbeatResponse})
"""The responses that are mostly the same for all members of a group, and for a member again and again."""
RECONNECT_BACKOFF_S: Final = 0.05
RECONNECT_BACKOFF_MAX_S: Final = 1.0
API_VERSIONS_VERSION: Final = 3


def _reason_of(error: OSError) -> str:
    """The reason why no connection could be made, as a short text.

    The event loop's own texts repeat the address and the number of the error.
    """
    if isinstance(error, TimeoutError):
        return "no connection in time"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def parse_bootstrap(text: str) -> tuple[NodeAddress, ...]:
    """The addresses in `HOST:PORT[,HOST:PORT…]`, which have no node ids.

    Raises ValueError as `parse_host_port` does.
    """
    return tuple(NodeAddress(-1, *parse_host_port(part.strip())) for part in text.split(","))


@dataclass(slots=True)
class _PendingRequest:
    """A request that was sent, or that waits until the connection is ready."""

    request: OutgoingRequest
    callback: TransportCallback
    timer: asyncio.TimerHandle
    sent_message: Message | None = None
    version: int = -1

    def fail(self, reason: str, *, is_unsupported: bool = False) -> None:
        self.timer.cancel()
        self.callback(RequestFailed(self.request.request_id, reason, is_unsupported))


class _Connection(asyncio.Protocol):
    """One connection, from the attempt to open it until it is lost. `on_lost` is called once, with the reason."""

    def __init__(
        self, client_id: str, max_versions: Mapping[int, int], on_lost: Callable[["_Connection", str], None]
    ) -> None:
        self._client_id = client_id
        self._max_versions = max_versions
        self._on_lost = on_lost
        self._frames = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._versions: Mapping[int, Versions] | None = None
        """The versions of each API that the broker offers; None until its ApiVersions response has arrived."""
        self._chosen_versions: dict[int, int] = {}
        """The version of each API that was requested on this connection."""
        self._correlation_id = 0
        self._api_versions_version = API_VERSIONS_VERSION
        self._queue: list[_PendingRequest] = []
        self._in_flight: dict[int, _PendingRequest] = {}
        self._is_ended = False

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of another event loop, such as uvloop, need not be derived from asyncio.Transport.
        self._transport = cast("asyncio.Transport", transport)
        if self._is_ended:
            self._transport.abort()
        else:
            self._request_versions(API_VERSIONS_VERSION)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if self._versions is None:
                    self._on_versions(frame)
                else:
                    self._on_response(frame)
        except ProtocolError as error:
            self.end(f"the broker's response cannot be decoded: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(str(exc) if exc else "the broker closed the connection")

    # -- called by the transport

    def send(self, pending: _PendingRequest) -> None:
        """Send a request, or keep it until the broker's versions are known."""
        if self._versions is None or self._transport is None:
            self._queue.append(pending)
            return
        message = pending.request.message
        version = self._chosen_versions.get(message.api_key)
        if version is None:
            version = choose_version(message, self._versions.get(message.api_key, Versions(0, -1)))
        if version is None:
            api = type(message).__name__.removesuffix("Request")
            pending.fail(f"the broker offers no known version of {api}", is_unsupported=True)
            return
        self._chosen_versions[message.api_key] = version
        pending.sent_message, pending.version = to_version(message, version), version
        self._correlation_id += 1
        header = RequestHeader(message.api_key, version, self._correlation_id, self._client_id)
        try:
            frame = encode_request(header, pending.sent_message)
        except ProtocolError as error:
            pending.fail(str(error), is_unsupported=True)
            return
        self._in_flight[self._correlation_id] = pending
        self._transport.write(frame)

    def end(self, reason: str, *, fails_requests: bool = True) -> None:
        """Close the connection.

        Its requests fail with the reason; without `fails_requests` their callbacks are never called.
        """
        if self._is_ended:
            return
        self._is_ended = True
        if self._transport is not None:
            self._transport.abort()
        requests = [*self._in_flight.values(), *self._queue]
        self._in_flight.clear()
        self._queue.clear()
        self._on_lost(self, reason)
        for pending in requests:
            if fails_requests:
                pending.fail(reason)
            else:
                pending.timer.cancel()

    # -- responses

    def _request_versions(self, version: int) -> None:
        assert self._transport is not None
        self._api_versions_version = version
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        header = RequestHeader(ApiVersionsRequest.api_key, version, 0, self._client_id)
        self._transport.write(encode_request(header, request))

    def _on_versions(self, frame: bytes) -> None:
        # A broker that does not know the version answers in the oldest one, with code 35 and the versions it offers.
        if int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION and self._api_versions_version:
            self._request_versions(0)
            return
        offered = _offered_versions(self._api_versions_version, frame[4:])
        self._versions = (
            offered
            if not self._max_versions
            else {
                key: Versions(versions.first, min(versions.last, self._max_versions.get(key, NEWEST)))
                for key, versions in offered.items()
            }
        )
        queue, self._queue = self._queue, []
        for pending in queue:
            self.send(pending)

    def _on_response(self, frame: bytes) -> None:
        pending = self._in_flight.pop(int.from_bytes(frame[:4], "big"), None)
        if pending is None or pending.sent_message is None:
            raise Malformed("a response to a request that is not pending")
        try:
            response = _decode_response(pending.sent_message, pending.version, frame)
        except ProtocolError as error:
            pending.fail(str(error))
            raise
        pending.timer.cancel()
        newest = from_version(pending.sent_message, response, pending.version)
        pending.callback(ResponseReceived(pending.request.request_id, newest))


@lru_cache(maxsize=8)
def _offered_versions(version: int, body: bytes) -> Mapping[int, Versions]:
    """The versions of each API in the body of an ApiVersions response, which a broker sends on every connection."""
    response = decode(ApiVersionsResponse, version, body)
    if response.error_code:
        raise Malformed(f"ApiVersions was refused: {ErrorCode.name_of(response.error_code)}")
    return {each.api_key: Versions(each.min_version, each.max_version) for each in response.api_keys}


def _decode_response(request: Message, version: int, frame: bytes) -> Message:
    """Decode the body of a response.

    Bytes after it are ignored as in the Java client: some brokers send a few too many.
    """
    api = APIS[request.api_key]
    position = 4
    if api.response_header_is_flexible(version):
        try:
            position = skip_tagged_fields(frame, position)
        except (IndexError, ValueError) as error:
            raise Malformed(f"response header, tagged fields: {error}") from None
    if api.response in REPEATED_RESPONSES:
        return _decode_repeated(api.response, version, frame[position:])
    return codec(api.response, version).decode(frame, position)[0]


@lru_cache(maxsize=64)
def _decode_repeated(response: type[Message], version: int, body: bytes) -> Message:
    """Decode the body of a response of which many members get the same bytes. All of them share the message, which is
    immutable: the metadata of a thousand partitions is so decoded once, and not by each of a thousand members."""
    return codec(response, version).decode(body, 0)[0]


ConnectionOpener: TypeAlias = Callable[[Callable[[], asyncio.Protocol], str, int], Awaitable[Any]]
"""Opens a connection, from a factory of its protocol, a host and a port. Raises OSError if nothing listens there."""


class TcpTransport:
    """Sends requests over TCP to any broker.

    Connections are opened when they are needed; after a failure with a backoff that doubles.

    `max_versions` limits APIs to older versions, to act as a client from before a KIP. `connect` opens connections
    elsewhere than on this machine's network, for example on a simulated one.
    """

    def __init__(
        self,
        bootstrap: Sequence[NodeAddress],
        *,
        client_id: str = "regroup",
        max_versions: Mapping[int, int] | None = None,
        connect: ConnectionOpener | None = None,
    ) -> None:
        self._bootstrap = cycle(bootstrap)
        self._client_id = client_id
        self._max_versions = max_versions or {}
        self._connect = connect
        self._connections: dict[tuple[RequestTarget, NodeAddress | None], _Connection] = {}
        self._opening: dict[asyncio.Task[None], None] = {}
        self._failures: dict[tuple[RequestTarget, NodeAddress | None], int] = {}
        self.last_error: str | None = None

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        """Send a request on the connection for its target.

        The connection is closed if no response arrives in time.
        """
        key = (request.target, request.address)
        connection = self._connections.get(key) or self._open(key)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(request.timeout_ms / 1000, connection.end, "no response in time")
        connection.send(_PendingRequest(request, callback, timer))

    def _open(self, key: tuple[RequestTarget, NodeAddress | None]) -> _Connection:
        def on_lost(connection: _Connection, reason: str) -> None:
            self.last_error = reason
            if self._connections.get(key) is connection:
                del self._connections[key]

        connection = _Connection(self._client_id, self._max_versions, on_lost)
        self._connections[key] = connection
        task = asyncio.get_running_loop().create_task(self._dial(key, connection))
        self._opening[task] = None
        task.add_done_callback(lambda done: self._opening.pop(done, None))
        return connection

    async def _dial(self, key: tuple[RequestTarget, NodeAddress | None], connection: _Connection) -> None:
        failures = self._failures.get(key, 0)
        if failures:
            await asyncio.sleep(min(RECONNECT_BACKOFF_S * 2 ** (failures - 1), RECONNECT_BACKOFF_MAX_S))
        address = key[1] or next(self._bootstrap)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                connect = self._connect or asyncio.get_running_loop().create_connection
                await connect(lambda: connection, address.host, address.port)
        except (OSError, TimeoutError) as error:
            self._failures[key] = min(failures + 1, 10)
            reason = _reason_of(error)
            connection.end(f"{address.host}:{address.port} cannot be reached: {reason}")
        else:
            self._failures.pop(key, None)

    def disconnect_coordinator(self) -> None:
        """Close the connection to the coordinator. The callbacks of its requests are not called."""
        for (target, _), connection in list(self._connections.items()):
            if target is RequestTarget.COORDINATOR:
                connection.end("disconnected", fails_requests=False)

    async def close(self) -> None:
        """Close all connections, also those that are still being opened."""
        for connection in list(self._connections.values()):
            connection.end("closed", fails_requests=False)
        for task in list(self._opening):
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                continue
