"""The outermost layer of every HTTP application here: checks Host, Origin and token, adds security headers, and writes
refusals as JSON.
"""

import re
from typing import Any, Final

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regroup.control.errors import ControlRefused, Problem, Status, problem_of
from regroup.control.web.access import Access, host_name
from regroup.coordinator.runtime.logger import get_logger

JSON: Final = "application/json"
HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
OPENER_POLICY: Final = ("cross-origin-opener-policy", "same-origin")
"""For trustworthy origins alone: on others browsers ignore it, and write that to their consoles as an error."""
LOOPBACK: Final = re.compile(r"localhost\.?|127\.\d+\.\d+\.\d+|::1")
log = get_logger("control")


class Guard:
    """Checks every request before the application gets it, and adds headers that restrict what browsers may do with the
    answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [*HEADERS.items()]
        if is_trustworthy(scope):
            headers.append(OPENER_POLICY)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in headers]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        try:
            self._access.check(Headers(scope=scope))
        except ControlRefused as error:
            response = problem_response(error, scope["path"])
            if error.status is Status.UNAUTHORIZED:
                response.headers["www-authenticate"] = 'Basic realm="regroup: any user, the token as password"'
            await response(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def is_trustworthy(scope: Scope) -> bool:
    """Whether browsers trust the origin as if it could not be changed on its way: by TLS, or on this machine."""
    try:
        host = host_name(Headers(scope=scope).get("host", ""))
    except ValueError:
        return False
    return scope.get("scheme") == "https" or bool(host and LOOPBACK.fullmatch(host))


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value) + b"\n", status, media_type=JSON)


def problem_response(error: Exception, path: str) -> Response:
    found = problem_of(error)
    if found is None:
        log.error("request failed", path=path, exc_info=error)
        found = Status.BROKEN, Problem("an error of regroup; its log has more")
    status, problem = found
    return json_response(problem, status)
