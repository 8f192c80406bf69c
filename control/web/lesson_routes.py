"""The page of lessons over HTTP: its files, the list of lessons, a lesson without its solution, answers, and tasks."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from regroup.classroom.page.files import lesson_page_files
from regroup.control.errors import Problem, Status
from regroup.control.web.access import Access
from regroup.control.web.bodies import json_body
from regroup.control.web.guard import Guard, json_response
from regroup.control.web.page_routes import answered, file_handler

MAX_BODY_BYTES: Final = 16 * 1024
BODY_TIMEOUT_S: Final = 10.0
BAD_REQUEST: Final = 400
LANGUAGES: Final = ("en", "zh")


class InvalidInput(ValueError):
    """An input that a lesson cannot use; the message says which inputs it can use."""


class LessonInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lesson and the language of its text."""

    lesson: str
    language: str = "en"


class AnswerInput(LessonInput, frozen=True, kw_only=True):
    """An answer to the question of a lesson; null skips the question."""

    answer: str | None


class TaskInput(LessonInput, frozen=True, kw_only=True):
    """The settings that a learner has chosen for the task of a lesson."""

    values: dict[str, str]


class TaughtLessons(Protocol):
    """The lessons that a page shows, and what a learner can do with them. Every method may raise InvalidInput and
    ControlRefused."""

    async def listed(self, language: str) -> Mapping[str, Any]: ...

    async def lesson(self, wanted: LessonInput) -> Mapping[str, Any]: ...

    async def solution(self, wanted: LessonInput) -> Mapping[str, Any]: ...

    async def answer(self, wanted: AnswerInput) -> Mapping[str, Any]: ...

    async def run_task(self, wanted: TaskInput) -> Mapping[str, Any]: ...

    async def run_assignor(self, wanted: LessonInput) -> Mapping[str, Any]: ...


def lesson_application(source: TaughtLessons, access: Access) -> ASGIApp:
    """The HTTP application of the page of lessons, with its guard."""
    routes = lesson_routes(source)
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: _on_http_exception}), access)


def lesson_routes(source: TaughtLessons) -> list[Route]:
    """The HTTP routes of the page of lessons: each path with the function that handles its requests."""

    async def listed(request: Request) -> Response:
        return json_response(await source.listed(_language(request.query_params.get("language", "en"))))

    async def icon(request: Request) -> Response:
        return Response(status_code=204)

    routes = [Route(f"/{path}", file_handler(file), methods=["GET"]) for path, file in lesson_page_files().items()]
    routes += [
        Route("/favicon.ico", icon, methods=["GET"]),
        Route("/lessons", _answered(listed), methods=["GET"]),
        Route("/lesson", _answered(_shown(source.lesson)), methods=["GET"]),
        Route("/lesson/solution", _answered(_shown(source.solution)), methods=["GET"]),
        Route("/lesson/answer", _answered(_done(AnswerInput, source.answer)), methods=["POST"]),
        Route("/lesson/task", _answered(_done(TaskInput, source.run_task)), methods=["POST"]),
        Route("/lesson/assignor", _answered(_done(LessonInput, source.run_assignor)), methods=["POST"]),
    ]
    return routes


Handler = Callable[[Request], Awaitable[Response]]


def _shown(show: Callable[[LessonInput], Awaitable[Mapping[str, Any]]]) -> Handler:
    async def handle(request: Request) -> Response:
        query = request.query_params
        language = _language(query.get("language", "en"))
        return json_response(await show(LessonInput(lesson=query.get("lesson", ""), language=language)))

    return handle


def _done(kind: type[Any], act: Callable[[Any], Awaitable[Mapping[str, Any]]]) -> Handler:
    async def handle(request: Request) -> Response:
        body = await json_body(request, most_bytes=MAX_BODY_BYTES, timeout_s=BODY_TIMEOUT_S)
        wanted = msgspec.json.decode(body, type=kind)
        _language(wanted.language)
        return json_response(await act(wanted))

    return handle


def _language(text: str) -> str:
    if text not in LANGUAGES:
        raise InvalidInput(f"unknown language: {text[:20]!r}; there are {' and '.join(LANGUAGES)}")
    return text


def _answered(handle: Handler) -> Handler:
    """Return a handler that calls `handle` and answers with status 400 if the input is one that the lesson cannot
    use."""

    async def answer(request: Request) -> Response:
        try:
            return await handle(request)
        except ClientDisconnect:
            return Response(status_code=Status.UNAVAILABLE)
        except (InvalidInput, msgspec.DecodeError) as error:
            return json_response(Problem(str(error)), BAD_REQUEST)

    return answered(answer)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """The answer to a request that Starlette refuses itself: an unknown path, or a wrong method."""
    status = error.status_code if isinstance(error, HTTPException) else Status.BROKEN
    what = f"does not take {request.method}" if status == Status.METHOD_NOT_ALLOWED else "is no path of the lessons"
    return json_response(Problem(f"{request.url.path!r} {what}"), status)
