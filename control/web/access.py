"""Checks whether a request may be answered: by its Host, its Origin and its token."""

import base64
import hmac
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from regroup.control.errors import ControlRefused, Status

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
SAME_SITE: Final = frozenset({"same-origin", "none"})
"""Values of the header Sec-Fetch-Site that a browser sends for an address that the user has typed, and for this port's
own page."""
MIN_TOKEN_CHARACTERS: Final = 16


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can connect to this address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_name(authority: str) -> str:
    """The host in `name:port` or `[address]:port`, in lower case. Raises ValueError."""
    parts = urlsplit(f"//{authority}")
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        raise ValueError(f"invalid host: {authority!r}")
    _ = parts.port  # raises ValueError for one that is no number
    return (parts.hostname or "").rstrip(".")


class Access:
    """Refuses requests that were made for another host, by the page of another origin, or without the token.

    A browser that was led here by a DNS name that changes its address (DNS rebinding) sends that name as Host. An
    address in digits cannot change, so any is accepted where the port listens beyond this machine.
    """

    def __init__(self, *, host: str, names: Iterable[str] = (), token: str = "") -> None:
        self._names = LOOPBACK_NAMES | {name.lower().rstrip(".") for name in (host, *names)}
        self._accepts_addresses = not is_loopback(host)
        self._token = token.encode()

    def check(self, headers: Headers) -> None:
        """Raise ControlRefused if the request with these headers has a foreign Host or Origin, or lacks the token."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            shown = ", ".join(map(repr, hosts)) or "none"
            raise ControlRefused(Status.FORBIDDEN, f"the Host is {shown}, and this port answers to its own names only")
        for origin in headers.getlist("origin"):
            if not _is_of_host(origin, hosts[0]):
                raise ControlRefused(Status.FORBIDDEN, f"pages of the origin {origin!r} may not use this port")
        for site in headers.getlist("sec-fetch-site"):
            if site not in SAME_SITE:
                raise ControlRefused(Status.FORBIDDEN, "pages of other sites may not use this port")
        if self._token and not self._has_token(headers.get("authorization", "")):
            raise ControlRefused(
                Status.UNAUTHORIZED, "the token is missing or wrong: send it as `Authorization: Bearer TOKEN`"
            )

    def _is_own(self, authority: str) -> bool:
        try:
            name = host_name(authority)
        except ValueError:
            return False
        return name in self._names or (self._accepts_addresses and _is_address(name))

    def _has_token(self, authorization: str) -> bool:
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() == "bearer":
            given = credentials.strip().encode()
        elif scheme.lower() == "basic":
            try:
                given = base64.b64decode(credentials, validate=True).partition(b":")[2]
            except ValueError:  # binascii.Error is one too; characters beyond ASCII
                return False
        else:
            return False
        return hmac.compare_digest(given, self._token)


def _is_of_host(origin: str, host: str) -> bool:
    """Whether a page with this origin comes from this host and port."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
