"""The page of histories (`classroom/page`) over HTTP: its files, the list of its histories, and their documents."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from regroup.classroom.page.files import PageFile, page_files
from regroup.control.errors import ControlRefused, Problem, Status
from regroup.control.web.access import Access
from regroup.control.web.guard import JSON, Guard, json_response, problem_response

MAX_POSITION = 2**63 - 1


class ListedRun(msgspec.Struct, frozen=True):
    """One history that a page offers: its run, the label of the run, and its group."""

    run: int
    label: str
    group: str


class ListedRuns(msgspec.Struct, frozen=True):
    """The histories of a page, in the order in which the page offers them."""

    runs: Sequence[ListedRun]


class DocumentSource(Protocol):
    """Lists the histories of groups that a page offers, and makes their JSON documents."""

    async def listed(self) -> Sequence[ListedRun]: ...

    async def document(self, run: int, group: str, after: int) -> bytes:
        """The document of one group's history (classroom/page/document.py) as JSON, with what changed after position
        `after`. Raises UnknownGroup, StoreError."""
        ...


def page_application(source: DocumentSource, access: Access) -> ASGIApp:
    """The HTTP application of the page alone, with its guard."""
    return Guard(Starlette(routes=page_routes(source), exception_handlers={HTTPException: _on_http_exception}), access)


def page_routes(source: DocumentSource) -> list[Route]:
    """The paths of the page with their handlers, relative to the path at which it is mounted."""

    async def timelines(request: Request) -> Response:
        return json_response(ListedRuns(await source.listed()))

    async def timeline(request: Request) -> Response:
        run, group, after = _wanted(request)
        return Response(await source.document(run, group, after), media_type=JSON)

    routes = [Route(f"/{path}", file_handler(file), methods=["GET"]) for path, file in page_files("page/").items()]
    routes.append(Route("/timelines", answered(timelines), methods=["GET"]))
    routes.append(Route("/timeline", answered(timeline), methods=["GET"]))
    return routes


def _wanted(request: Request) -> tuple[int, str, int]:
    """The run, the group and the position that the query of a request names. Raises ControlRefused if one of them is
    invalid."""
    query = request.query_params
    return _number(query.get("run", "0"), "run"), query.get("group", ""), _number(query.get("after", "0"), "after")


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_POSITION):
        raise ControlRefused(Status.INVALID, f"invalid {name}: {text!r}; give a whole number")
    return int(text)


def answered(handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that calls `handle`; if that raises an error, the response is a Problem with the status of that
    error."""

    async def answer(request: Request) -> Response:
        try:
            return await handle(request)
        except Exception as error:  # noqa: BLE001  # answered as what it is, or logged
            return problem_response(error, request.url.path)

    return answer


def file_handler(file: PageFile) -> Callable[[Request], Awaitable[Response]]:
    async def content(request: Request) -> Response:
        return Response(file.content, media_type=file.media_type)

    return content


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """The answer to a request that Starlette refuses itself: an unknown path, or a wrong method."""
    status = error.status_code if isinstance(error, HTTPException) else Status.BROKEN
    what = "takes GET alone" if status == Status.METHOD_NOT_ALLOWED else "is not a path of this page"
    return json_response(Problem(f"{request.url.path!r} {what}"), status)
