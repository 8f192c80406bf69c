"""The header of requests: API key, version, correlation id and client id."""

from typing import NamedTuple

__all__ = ["RequestHeader"]


class RequestHeader(NamedTuple):
    """The fields that precede the body of every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
