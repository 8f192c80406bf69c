"""One connection to a broker: a request goes out, its answer comes back, one at a time as Kafka does it."""

import asyncio
from typing import Self, TypeVar

from regroup.protocol.apis import APIS
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message

Answer = TypeVar("Answer", bound=Message)

CLIENT_ID = "regroup"
_CHUNK_BYTES = 65536


class ConnectionLost(Exception):
    """The broker closed the connection instead of answering."""


class Connection:
    """A raw connection. It is not shared: whoever asks waits for the answer before asking again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._correlation_id = 0

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        """OSError: nobody listens there."""
        return cls(*await asyncio.open_connection(host, port))

    async def ask(self, request: Message, version: int, client_id: str | None = CLIENT_ID) -> Message:
        """The answer to one request. ConnectionLost, or Malformed when the answer cannot be read."""
        self._correlation_id += 1
        header = RequestHeader(request.api_key, version, self._correlation_id, client_id)
        frame = await self.exchange(encode_request(header, request))
        correlation_id, answer = decode_response(request.api_key, version, frame)
        if correlation_id != self._correlation_id:
            raise ConnectionLost(f"asked with correlation id {self._correlation_id}, answered with {correlation_id}")
        return answer

    async def exchange(self, request: bytes) -> bytes:
        """A frame out (with its length), a frame in (without): for requests that the codec would not write."""
        try:
            self._writer.write(request)
            await self._writer.drain()
            while chunk := await self._reader.read(_CHUNK_BYTES):
                for frame in self._frames.feed(chunk):
                    return frame
        except ConnectionError as error:
            raise ConnectionLost(f"the connection broke: {error}") from error
        raise ConnectionLost("the connection was closed without an answer")

    async def close(self) -> None:
        """Close at once; whatever the broker still wanted to say is not waited for."""
        self._writer.transport.abort()
        try:
            await self._writer.wait_closed()
        except OSError:
            return


def answer_as(kind: type[Answer], answer: Message) -> Answer:
    """The answer as the type that the API table promises."""
    assert type(answer) is kind, f"{type(answer).__name__} where {kind.__name__} was expected"
    return answer


def api_name(request: Message) -> str:
    """Kafka's name of the API, as in `JoinGroup`."""
    return APIS[request.api_key].name
