"""The server of the control port: uvicorn in the running loop, without its signal handlers and its log."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import Final

import uvicorn

from regroup.control.endpoints.endpoint import ControlledEmulator
from regroup.control.web import connections
from regroup.control.web.access import MIN_TOKEN_CHARACTERS, Access, is_loopback
from regroup.control.web.application import ControlApplication
from regroup.coordinator.settings import InvalidSetting
from regroup.testing.async_emulator import AsyncEmulator

STOP_TIMEOUT_S: Final = 2


class UvicornServer(uvicorn.Server):
    """Leaves the signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_control(
    emulator: AsyncEmulator, host: str, port: int, *, token: str = "", names: Iterable[str] = ()
) -> AsyncIterator[str]:
    """Serve until the end of the block; gives the address of the page. `names` are further names of this host.

    Raises InvalidSetting if others than this machine could ask without a token, and OSError if the port is in use.
    """
    check_token(host, token)
    with closing(await _listening_socket(host, port)) as listener:
        application = ControlApplication(
            ControlledEmulator(emulator=emulator), Access(host=host, names=names, token=token)
        )
        config = uvicorn.Config(
            application.asgi,
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
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="control")
        shown, port = listener.getsockname()[:2]
        try:
            yield f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
        finally:
            application.close()
            server.should_exit = True
            with suppress(asyncio.CancelledError):
                await serving


def check_token(host: str, token: str) -> None:
    """Raise InvalidSetting for a missing token beyond this machine, or a short one."""
    if not token and not is_loopback(host):
        raise InvalidSetting(
            f"--control {host} can be reached by other machines, so it needs a token: name a file with "
            "--control-token FILE, or set REGROUP_CONTROL_TOKEN"
        )
    if token and len(token) < MIN_TOKEN_CHARACTERS:
        raise InvalidSetting(f"the token of --control has {len(token)} characters; give {MIN_TOKEN_CHARACTERS} or more")


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
