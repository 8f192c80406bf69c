"""The HTTP application of the control port: checks a request, calls its endpoint, and writes the answer or
the error.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from regroup.control.document import openapi_document
from regroup.control.endpoints.all import ENDPOINTS
from regroup.control.endpoints.endpoint import ControlEndpoint, ControlledEmulator, Handler, StreamHandler
from regroup.control.errors import ControlRefused, Problem, Status
from regroup.control.inputs import input_of_body, input_of_query
from regroup.control.web.access import Access
from regroup.control.web.bodies import json_body
from regroup.control.web.files import PortKind, served_files
from regroup.control.web.guard import JSON, Guard, json_response, problem_response
from regroup.control.web.streams import EventStream, disconnected

MAX_BODY_BYTES: Final = 1024 * 1024
BODY_TIMEOUT_S: Final = 10.0
"""Seconds within which the body of a request must arrive."""
MAX_WAITS: Final = 100
"""The most requests that wait for something at one port at the same time; streams are included."""


class ControlApplication:
    """The HTTP application of all endpoints for one emulator. `close` ends the requests that still wait for a
    result."""

    def __init__(self, controlled: ControlledEmulator, access: Access, kind: PortKind = PortKind.CONTROL) -> None:
        self._controlled = controlled.at_port(is_read_only=kind.is_read_only)
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        routes = [Route(each.path, self._handler(each), methods=[each.method]) for each in ENDPOINTS]
        routes += [Route(path, _file_handler(*file), methods=["GET"]) for path, file in served_files(kind).items()]
        routes.append(Route("/openapi.json", _document_handler(), methods=["GET"]))
        routes.append(Route("/favicon.ico", _no_icon, methods=["GET"]))
        starlette = Starlette(routes=routes, exception_handlers={HTTPException: _on_http_exception})
        self.asgi: ASGIApp = Guard(starlette, access)

    def close(self) -> None:
        """Answer the requests that are waiting for something with status 503, and refuse later requests that would have
        to wait."""
        if not self._closing.done():
            self._closing.set_result(None)

    def _handler(self, endpoint: ControlEndpoint) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                if endpoint.method == "POST" and self._controlled.is_read_only:
                    raise ControlRefused(Status.FORBIDDEN, "this page is for an audience: it shows, and does not act")
                wanted = await _input_of(endpoint, request)
                if endpoint.streams:
                    return self._stream(endpoint, wanted)
                run = self._wait if endpoint.waits else self._run
                return json_response(await run(endpoint, wanted, request))
            except ClientDisconnect:
                return Response(status_code=Status.UNAVAILABLE)
            except Exception as error:  # noqa: BLE001  # answered as what it is, or logged
                return problem_response(error, endpoint.path)

        return handle

    async def _run(self, endpoint: ControlEndpoint, wanted: Any, request: Request) -> Any:
        return await cast("Handler", endpoint.handle)(self._controlled, wanted)

    async def _wait(self, endpoint: ControlEndpoint, wanted: Any, request: Request) -> Any:
        """Call the function of an endpoint that may wait, and return its result. Raises ClientDisconnect if the client
        disconnects before, and ControlRefused if the server stops before."""
        self._begin_wait()
        waiting = asyncio.ensure_future(self._run(endpoint, wanted, request))
        gone = asyncio.ensure_future(disconnected(request.receive))
        try:
            await asyncio.wait({waiting, gone, self._closing}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if gone.done():
                raise ClientDisconnect
            raise ControlRefused(Status.UNAVAILABLE, "regroup is stopping")
        finally:
            self._end_wait()
            waiting.cancel()
            gone.cancel()
            await asyncio.gather(waiting, gone, return_exceptions=True)

    def _stream(self, endpoint: ControlEndpoint, wanted: Any) -> Response:
        if self._closing.done():
            raise ControlRefused(Status.UNAVAILABLE, "regroup is stopping")
        messages = cast("StreamHandler", endpoint.handle)(self._controlled, wanted)
        self._begin_wait()
        return EventStream(messages, self._closing, self._end_wait)

    def _begin_wait(self) -> None:
        if self._controlled.waits >= MAX_WAITS:
            raise ControlRefused(Status.TOO_MANY_WAITS, f"{MAX_WAITS} requests wait already: let one of them end")
        self._controlled.waits += 1

    def _end_wait(self) -> None:
        self._controlled.waits -= 1


async def _input_of(endpoint: ControlEndpoint, request: Request) -> Any:
    if endpoint.method == "GET":
        return input_of_query(endpoint, request.query_params.multi_items())
    if request.query_params:
        raise ControlRefused(Status.INVALID, f"{endpoint.path} takes a JSON body and no query")
    return input_of_body(endpoint, await json_body(request, most_bytes=MAX_BODY_BYTES, timeout_s=BODY_TIMEOUT_S))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """The answer to a request that Starlette refuses itself: an unknown path, or a wrong method."""
    status = error.status_code if isinstance(error, HTTPException) else Status.BROKEN
    if status == Status.METHOD_NOT_ALLOWED:
        methods = ", ".join(each.method for each in ENDPOINTS if each.path == request.url.path) or "GET"
        sentence = f"{request.url.path} takes {methods}, not {request.method}"
    else:
        sentence = f"there is no path {request.url.path!r}; /openapi.json lists them"
    response = json_response(Problem(sentence), status)
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


def _file_handler(media_type: str, content: bytes) -> Callable[[Request], Awaitable[Response]]:
    async def file(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return file


async def _no_icon(request: Request) -> Response:
    """An empty answer to the request for a page icon: browsers send it by themselves and report an error if it
    fails."""
    return Response(status_code=204)


def _document_handler() -> Callable[[Request], Awaitable[Response]]:
    encoded = b""

    async def document(request: Request) -> Response:
        nonlocal encoded
        encoded = encoded or msgspec.json.format(msgspec.json.encode(openapi_document()))
        return Response(encoded, media_type=JSON)

    return document
