"""The options of `regroup serve` for the control port and for the page."""

import os
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from socket import gethostname
from typing import Final

from regroup.cli.jobs import CannotRun
from regroup.cli.terminal.arguments import load
from regroup.notation.addresses import MAX_PORT

PACKAGES: Final = ("starlette", "uvicorn")
TOKEN_VARIABLES: Final = {"control": "REGROUP_CONTROL_TOKEN", "page": "REGROUP_PAGE_TOKEN"}
MAX_TOKEN_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """The checked options of one port: what it serves, where it listens, and who may use it."""

    kind: str
    """The value of a `PortKind`, as text: the class is loaded only if such a port is wanted."""
    host: str
    port: int
    token: str
    names: tuple[str, ...]
    """Further names of this host, which requests may use besides `host`."""


def control_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`. An IPv6 host is written in brackets, and port 0 is a free one. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise ValueError(f"invalid address: {text!r}; write HOST:PORT, for example 127.0.0.1:9080")
    return host, int(port)


def control_options(args: Namespace) -> tuple[ControlOptions, ...]:
    """The options of the ports that --control and --page ask for. Raises CannotRun or InvalidSetting."""
    for name in TOKEN_VARIABLES:
        if getattr(args, name) is None and getattr(args, f"{name}_token") is not None:
            raise CannotRun(f"--{name}-token needs --{name} HOST:PORT.")
    if args.page_read_only and args.page is None:
        raise CannotRun("--page-read-only needs --page HOST:PORT.")
    if args.page is not None and args.page == args.control and args.page[1]:
        raise CannotRun("--page serves what --control serves: leave --control out, or give it another port.")
    return tuple(_wanted_ports(args))


def _wanted_ports(args: Namespace) -> Iterator[ControlOptions]:
    for option, variable in TOKEN_VARIABLES.items():
        if (address := getattr(args, option)) is None:
            continue
        if missing := [name for name in PACKAGES if find_spec(name) is None]:
            raise CannotRun(f"--{option} needs {' and '.join(missing)}: pip install {' '.join(missing)}")
        host, port = address
        token = _read_token(getattr(args, f"{option}_token"), variable)
        load("regroup.control.web.server:check_token")(option, host, token)
        names = (gethostname(), *([args.advertise[0]] if args.advertise else []))
        kind = "page-read-only" if option == "page" and args.page_read_only else option
        yield ControlOptions(kind, host, port, token, names)


def _read_token(path: Path | None, variable: str) -> str:
    """The token in the file or, without a file, in the environment variable; empty if there is none."""
    if path is None:
        return os.environ.get(variable, "").strip()
    try:
        with path.open(encoding="utf-8") as file:
            token = file.read(MAX_TOKEN_BYTES).strip()
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CannotRun(f"{path} holds no text in UTF-8.") from None
    if not token:
        raise CannotRun(f"{path} holds no token.")
    return token
