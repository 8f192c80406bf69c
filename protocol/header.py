"""The header that stands before the body of every request."""

from typing import NamedTuple


class RequestHeader(NamedTuple):
    """What stands before the body of every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
