"""The client's side of one connection: request objects out, response objects in.

connection = await ClientConnection.open("127.0.0.1", 9092)
response = await connection.send(MetadataRequest())              # in the newest version
pending = connection.post(JoinGroupRequest(...), version=7)      # sent now, awaited later
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import EllipsisType
from typing import Any, Final, Self, cast

from regroup.protocol.exceptions import ProtocolError
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message

DEFAULT_CLIENT_ID: Final = "regroup"


class ConnectionLost(Exception):
    """The broker closed the connection instead of sending a response."""


class ClientConnection(asyncio.Protocol):
    """One connection to one broker. A broker answers the requests of a connection in their order, one at a time."""

    def __init__(self, client_id: str | None = DEFAULT_CLIENT_ID) -> None:
        self.client_id = client_id
        self._frames = FrameReader()
        self._pending: deque[tuple[asyncio.Future[Any], Callable[[bytes], Any]]] = deque()
        self._correlation_id = 0
        self._lost: str | None = None
        self._closed = asyncio.Event()

    @classmethod
    async def open(cls, host: str, port: int, client_id: str | None = DEFAULT_CLIENT_ID) -> Self:
        """Connect to the broker on this host and port, and return the connection. `client_id` is sent with every
        request. Raises OSError if no broker listens there."""
        _, connection = await asyncio.get_running_loop().create_connection(lambda: cls(client_id), host, port)
        return connection

    @property
    def is_lost(self) -> bool:
        """Whether the connection has been closed, by either side."""
        return self._lost is not None

    def post(
        self, request: Message, version: int | None = None, client_id: str | EllipsisType | None = ...
    ) -> asyncio.Future[Message]:
        """Send a request; the future gets its response. Without a version it is sent in the newest one,
        and without a client id with that of the connection.

        The future fails with ConnectionLost, or with Malformed if the response cannot be decoded. Raises ProtocolError
        for a request that cannot be encoded in this version.
        """
        version = request.versions.last if version is None else version
        self._correlation_id += 1
        correlation_id = self._correlation_id
        header = RequestHeader(
            request.api_key, version, correlation_id, self.client_id if client_id is ... else client_id
        )

        def decode(frame: bytes) -> Message:
            answered_id, response = decode_response(request.api_key, version, frame)
            if answered_id != correlation_id:
                raise ConnectionLost(f"the response to request {correlation_id} has correlation id {answered_id}")
            return response

        return self._send(encode_request(header, request), decode)

    async def send(
        self, request: Message, version: int | None = None, client_id: str | EllipsisType | None = ...
    ) -> Message:
        """Send a request, wait for its response and return it. The arguments and exceptions are those of `post`, and
        the exceptions with which its future fails are raised."""
        return await self.post(request, version, client_id)

    async def send_frame(self, request: bytes) -> bytes:
        """Send the bytes of a request that is encoded already, with its length prefix, and return the bytes of the
        response without its length prefix. It serves tests that send what no encoder would write."""
        return cast(bytes, await self._send(request, bytes))

    def _send(self, data: bytes, decode: Callable[[bytes], Any]) -> asyncio.Future[Any]:
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            response.set_exception(ConnectionLost(self._lost))
        else:
            self._pending.append((response, decode))
            self._transport.write(data)
        return response

    async def close(self) -> None:
        """Close the connection at once. The futures of requests that have no response yet fail with ConnectionLost."""
        self._transport.abort()
        await self._closed.wait()

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if not self._pending:
                    raise ConnectionLost("the broker sent a response without a request")
                response, decode = self._pending.popleft()
                if not response.done():
                    self._answer(response, decode, frame)
        except (ProtocolError, ConnectionLost) as error:
            self._end(str(error))
            self._transport.abort()

    def _answer(self, response: asyncio.Future[Any], decode: Callable[[bytes], Any], frame: bytes) -> None:
        try:
            response.set_result(decode(frame))
        except (ProtocolError, ConnectionLost) as error:
            response.set_exception(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"the connection broke: {error}" if error else "the connection was closed without a response")
        self._closed.set()

    def _end(self, reason: str) -> None:
        self._lost = self._lost or reason
        while self._pending:
            response, _ = self._pending.popleft()
            with suppress(asyncio.InvalidStateError):  # its caller may have been cancelled
                response.set_exception(ConnectionLost(self._lost))
                response.exception()  # a caller that does not wait is not warned
