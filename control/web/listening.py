"""Runs an HTTP application with uvicorn in the running event loop, without uvicorn's signal handlers and log."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from regroup.control.web import connections

STOP_TIMEOUT_S: Final = 2


class UvicornServer(uvicorn.Server):
    """A uvicorn server that installs no signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _nothing() -> None:
    """Do nothing: the default for `before_stop`."""


@asynccontextmanager
async def serve_application(
    application: ASGIApp, host: str, port: int, *, before_stop: Callable[[], None] = _nothing
) -> AsyncIterator[str]:
    """Serve an HTTP application until the end of the `async with` block; its value is the server's URL. `before_stop`
    is called before the server stops, to end requests that wait.

    Raises OSError if the port is in use.
    """
    with closing(await _listening_socket(host, port)) as listener:
        config = uvicorn.Config(
            application,
            http=connections.BoundedConnection,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=connections.MAX_CONNECTIONS + 1,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        server = UvicornServer(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
        shown, port = listener.getsockname()[:2]
        try:
            yield f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
        finally:
            before_stop()
            server.should_exit = True
            with suppress(asyncio.CancelledError):
                await serving


async def _listening_socket(host: str, port: int) -> socket.socket:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
