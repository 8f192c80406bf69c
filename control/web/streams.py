"""Responses with server-sent events: one message after another, until the client disconnects or the server stops."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regroup.coordinator.runtime.logger import get_logger

KEEP_ALIVE_S: Final = 15.0
"""The longest time in seconds without a line, because proxies close connections that are silent for long."""
log = get_logger("control")


class EventStream(Response):
    """A response that sends each message of an iterator as a server-sent event. When the future `closing` is done, the
    response ends early. `on_end` is called once, when the response has ended."""

    media_type = "text/event-stream"

    def __init__(
        self, messages: AsyncIterator[Any], closing: asyncio.Future[None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._messages = messages
        self._closing = closing
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with aclosing(self._lines(receive)) as lines:
                async for line in lines:
                    await send({"type": "http.response.body", "body": line, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._on_end()

    async def _lines(self, receive: Receive) -> AsyncGenerator[bytes, None]:
        gone = asyncio.ensure_future(disconnected(receive))
        message = asyncio.ensure_future(self._next())
        try:
            while True:
                done, _ = await asyncio.wait(
                    {message, gone, self._closing}, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
                )
                if gone in done or self._closing in done:
                    return
                if message not in done:
                    yield b":\n\n"
                    continue
                yield b"data: " + msgspec.json.encode(message.result()) + b"\n\n"
                message = asyncio.ensure_future(self._next())
        except StopAsyncIteration:
            return
        except Exception:
            log.exception("stream failed")
        finally:
            gone.cancel()
            message.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(gone, message, return_exceptions=True)

    async def _next(self) -> Any:
        return await anext(self._messages)


async def disconnected(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
