"""Reads the body of a request, with limits on its size and on the time until it has arrived."""

import asyncio

from starlette.requests import Request

from regroup.control.errors import ControlRefused, Status
from regroup.control.web.guard import JSON


async def json_body(request: Request, *, most_bytes: int, timeout_s: float) -> bytes:
    """The body of a request whose content type is JSON. Raises ControlRefused for another type, too many bytes or too
    much time, and ClientDisconnect."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise ControlRefused(
            Status.NOT_JSON, f"the Content-Type is {kind!r}: send {JSON} (curl does it with --json '{{}}')"
        )
    try:
        async with asyncio.timeout(timeout_s):
            return await _body_of(request, most_bytes)
    except TimeoutError:
        raise ControlRefused(Status.TIMED_OUT, f"the body has not come within {timeout_s:g} s") from None


async def _body_of(request: Request, most_bytes: int) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most_bytes:
            raise ControlRefused(Status.TOO_LARGE, f"the body has more than {most_bytes} bytes")
    return bytes(body)
