"""The options of the control port of `regroup serve`."""

import os
from argparse import Namespace
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from socket import gethostname
from typing import Final

from regroup.cli.jobs import CannotRun
from regroup.cli.terminal.arguments import MAX_PORT, load

PACKAGES: Final = ("starlette", "uvicorn")
TOKEN_VARIABLE: Final = "REGROUP_CONTROL_TOKEN"
MAX_TOKEN_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """Where the control port listens, checked."""

    host: str
    port: int
    token: str
    names: tuple[str, ...]
    """Names of this host beside `host`."""


def control_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`; an IPv6 host stands in brackets, and port 0 is a free one. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise ValueError(f"invalid address: {text!r}; write HOST:PORT, for example 127.0.0.1:9080")
    return host, int(port)


def control_options(args: Namespace) -> ControlOptions | None:
    """The options that the arguments describe; None without --control. Raises CannotRun or InvalidSetting."""
    if args.control is None:
        if args.control_token is not None:
            raise CannotRun("--control-token needs --control HOST:PORT.")
        return None
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise CannotRun(f"--control needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    host, port = args.control
    token = _read_token(args.control_token)
    load("regroup.control.web.server:check_token")(host, token)
    names = (gethostname(), *([args.advertise[0]] if args.advertise else []))
    return ControlOptions(host, port, token, names)


def _read_token(path: Path | None) -> str:
    """The token in the file, or else in the environment; empty if there is none."""
    if path is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
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
