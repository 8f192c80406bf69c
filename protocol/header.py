"""The header of requests."""

from typing import NamedTuple

__all__ = ["RequestHeader"]


class RequestHeader(NamedTuple):
    """The fields before the body of every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
