"""Addresses of brokers: a host, or `HOST:PORT`."""

from typing import Final

MAX_PORT: Final = 65_535


def parse_host_port(text: str) -> tuple[str, int]:
    """A host and a port from `HOST:PORT`; an IPv6 host stands in brackets. Raises ValueError for any other text."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not is_host(host) or not port.isascii() or not port.isdigit() or not 0 < int(port) <= MAX_PORT:
        raise ValueError(f"invalid address: {text!r}; write HOST:PORT, for example localhost:9092")
    return host, int(port)


def is_host(text: str) -> bool:
    """Whether the text can be a host name or an address: `a..b`, or a label of 64 letters, cannot be one."""
    try:
        return bool(text.encode("idna"))
    except UnicodeError:
        return False


def parse_host(text: str) -> str:
    """Return the text if it can be a host name. Raises ValueError otherwise."""
    if not is_host(text):
        raise ValueError(f"invalid host: {text!r}; write a name or an address, for example 127.0.0.1")
    return text
