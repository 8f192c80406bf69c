"""A client that speaks Kafka's protocol with our own codec."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from regroup.protocol.frames import decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message

NOW_MS = 1_700_000_000_000
TIMEOUT_S = 30.0
"""No step takes a second on an idle machine; the machine may be busy."""


class WireClient:
    """One connection. `call` sends a request and returns its response; `send` and `receive` do one half each."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._correlation_ids = count(1)

    @classmethod
    async def connect(cls, host: str, port: int) -> "WireClient":
        return cls(*await asyncio.open_connection(host, port))

    async def call(self, request: Message, version: int | None = None) -> Message:
        """The response to a request, in its latest version unless another is given."""
        version = request.versions.last if version is None else version
        self.send(request, version)
        return await self.receive(request.api_key, version)

    def send(self, request: Message, version: int | None = None) -> int:
        """Send a request, and return its correlation id."""
        version = request.versions.last if version is None else version
        correlation_id = next(self._correlation_ids)
        self.writer.write(encode_request(RequestHeader(request.api_key, version, correlation_id, "test"), request))
        return correlation_id

    async def receive(self, api_key: int, version: int) -> Message:
        return decode_response(api_key, version, await self.frame())[1]

    async def frame(self) -> bytes:
        """The next frame, without its length prefix."""
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(length)

    async def is_closed_by_the_broker(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), TIMEOUT_S) == b""
        except ConnectionResetError:
            return True

    async def close(self) -> None:
        self.writer.transport.abort()  # closing would wait for a broker that does not read
        with suppress(ConnectionError):
            await self.writer.wait_closed()


async def wait_until(condition: Callable[[], object]) -> None:
    """Run the event loop until the condition holds."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0)
