"""A raw connection to a broker, for one request at a time."""

import asyncio
from contextlib import suppress
from typing import Self, TypeVar

from regroup.protocol.apis import APIS
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message

AnyResponse = TypeVar("AnyResponse", bound=Message)

DEFAULT_CLIENT_ID = "regroup"
_CHUNK_BYTES = 65536


class ConnectionLost(Exception):
    """The broker closed the connection instead of sending a response."""


class ConformanceConnection:
    """A connection that is not shared: its user awaits each response before the next request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._correlation_id = 0

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        """Connect. OSError if no broker listens there."""
        return cls(*await asyncio.open_connection(host, port))

    async def send(self, request: Message, version: int, client_id: str | None = DEFAULT_CLIENT_ID) -> Message:
        """Send a request and return its response. ConnectionLost; Malformed if the response cannot be decoded."""
        self._correlation_id += 1
        header = RequestHeader(request.api_key, version, self._correlation_id, client_id)
        frame = await self.send_frame(encode_request(header, request))
        correlation_id, response = decode_response(request.api_key, version, frame)
        if correlation_id != self._correlation_id:
            raise ConnectionLost(f"the response to request {self._correlation_id} has correlation id {correlation_id}")
        return response

    async def send_frame(self, request: bytes) -> bytes:
        """Send a frame with its length prefix and return the response frame without, for what no codec would write."""
        try:
            self._writer.write(request)
            await self._writer.drain()
            while chunk := await self._reader.read(_CHUNK_BYTES):
                for frame in self._frames.feed(chunk):
                    return frame
        except ConnectionError as error:
            raise ConnectionLost(f"the connection broke: {error}") from error
        raise ConnectionLost("the connection was closed without a response")

    async def close(self) -> None:
        """Close at once and drop responses that are still to come."""
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()


def response_as(response_type: type[AnyResponse], response: Message) -> AnyResponse:
    """The response as the type that belongs to the API of its request."""
    assert type(response) is response_type, f"{type(response).__name__} instead of {response_type.__name__}"
    return response


def api_name(request: Message) -> str:
    """Kafka's name of the request's API, such as `JoinGroup`."""
    return APIS[request.api_key].name
