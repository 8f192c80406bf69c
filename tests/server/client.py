"""A client that speaks with our own codec, and the patience of these tests."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from regroup.protocol.frames import decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message

NOW_MS = 1_700_000_000_000
PATIENCE_S = 30.0
"""Nothing here takes a second; but the machine may be busy."""


class Client:
    """One connection. `call` asks and waits; `send` and `receive` do one half each."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._ids = count(1)

    async def call(self, request: Message, version: int | None = None) -> Message:
        version = request.versions.last if version is None else version
        self.send(request, version)
        return await self.receive(request.api_key, version)

    def send(self, request: Message, version: int | None = None) -> int:
        version = request.versions.last if version is None else version
        correlation_id = next(self._ids)
        self.writer.write(encode_request(RequestHeader(request.api_key, version, correlation_id, "test"), request))
        return correlation_id

    async def receive(self, api_key: int, version: int) -> Message:
        return decode_response(api_key, version, await self.frame())[1]

    async def frame(self) -> bytes:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(length)

    async def is_closed_by_the_broker(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), PATIENCE_S) == b""
        except ConnectionResetError:
            return True

    async def close(self) -> None:
        self.writer.transport.abort()  # closing would wait for a broker that does not read
        with suppress(ConnectionError):
            await self.writer.wait_closed()


async def until(condition: Callable[[], object]) -> None:
    """Let everything in this process go on until this holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # it announces itself to nobody
            await asyncio.sleep(0)
