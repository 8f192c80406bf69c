"""The server of the control port: its application over one emulator, on an address that is guarded."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from regroup.control.endpoints.endpoint import ControlledEmulator
from regroup.control.web.access import MIN_TOKEN_CHARACTERS, Access, is_loopback
from regroup.control.web.application import ControlApplication
from regroup.control.web.listening import serve_application
from regroup.coordinator.settings import InvalidSetting
from regroup.testing.async_emulator import AsyncEmulator


@asynccontextmanager
async def serve_control(
    emulator: AsyncEmulator, host: str, port: int, *, token: str = "", names: Iterable[str] = ()
) -> AsyncIterator[str]:
    """Serve until the end of the block; gives the address of the page. `names` are further names of this host.

    Raises InvalidSetting if others than this machine could ask without a token, and OSError if the port is in use.
    """
    check_token(host, token)
    application = ControlApplication(ControlledEmulator(emulator=emulator), Access(host=host, names=names, token=token))
    async with serve_application(application.asgi, host, port, before_stop=application.close) as address:
        yield address


def check_token(host: str, token: str) -> None:
    """Raise InvalidSetting for a missing token beyond this machine, or a short one."""
    if not token and not is_loopback(host):
        raise InvalidSetting(
            f"--control {host} can be reached by other machines, so it needs a token: name a file with "
            "--control-token FILE, or set REGROUP_CONTROL_TOKEN"
        )
    if token and len(token) < MIN_TOKEN_CHARACTERS:
        raise InvalidSetting(f"the token of --control has {len(token)} characters; give {MIN_TOKEN_CHARACTERS} or more")
