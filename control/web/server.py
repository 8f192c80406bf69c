"""The server of the control port: serves the application of one emulator, with its guard, on an address."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from regroup.control.endpoints.endpoint import ControlledEmulator
from regroup.control.web.access import MIN_TOKEN_CHARACTERS, Access, is_loopback
from regroup.control.web.application import ControlApplication
from regroup.control.web.files import PortKind
from regroup.control.web.listening import serve_application
from regroup.coordinator.settings import InvalidSetting


@asynccontextmanager
async def serve_control(
    controlled: ControlledEmulator,
    host: str,
    port: int,
    *,
    token: str = "",
    names: Iterable[str] = (),
    kind: PortKind = PortKind.CONTROL,
) -> AsyncIterator[str]:
    """Serve the endpoints until the end of the `async with` block, which gets the URL of the page. `names` are further
    names of this host.

    Raises InvalidSetting if others than this machine could ask without a token, and OSError if the port is in use.
    """
    check_token(kind.option, host, token)
    application = ControlApplication(controlled, Access(host=host, names=names, token=token), kind)
    async with serve_application(application.asgi, host, port, before_stop=application.close) as address:
        yield address


def check_token(option: str, host: str, token: str) -> None:
    """Raise InvalidSetting if other machines can connect and there is no token, or if the token is short; `option` is
    `control` or `page`."""
    if not token and not is_loopback(host):
        raise InvalidSetting(
            f"--{option} {host} can be reached by other machines, so it needs a token: name a file with "
            f"--{option}-token FILE, or set REGROUP_{option.upper()}_TOKEN"
        )
    if token and len(token) < MIN_TOKEN_CHARACTERS:
        raise InvalidSetting(
            f"the token of --{option} has {len(token)} characters; give {MIN_TOKEN_CHARACTERS} or more"
        )
