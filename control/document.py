"""The OpenAPI document of the control port, written from the endpoints."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import msgspec

from regroup.control.endpoints.all import ENDPOINTS
from regroup.control.endpoints.endpoint import ControlEndpoint
from regroup.control.errors import Problem, Status

REF: Final = "#/components/schemas/{name}"
EVERYWHERE: Final = (
    Status.UNAUTHORIZED,
    Status.FORBIDDEN,
    Status.INVALID,
    Status.BROKEN,
    Status.UNAVAILABLE,
)
"""Statuses with which any endpoint may refuse a request."""
WITH_BODY: Final = (Status.TIMED_OUT, Status.TOO_LARGE, Status.NOT_JSON)
DESCRIPTION: Final = (
    "Look at and act on a running `regroup serve`. Names of groups, topics, members and clients travel in the query or "
    "in the JSON body, since they may hold any character. Times are those of the brokers, in real time. Every act on a "
    "group is a command of the coordinator; its events have the cause `test`."
)


def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of all endpoints, as JSON values."""
    types = [kind for endpoint in ENDPOINTS for kind in (endpoint.input_type, endpoint.answer_type)]
    refs, components = msgspec.json.schema_components([*types, Problem], ref_template=REF)
    problem, schemas = refs[-1], iter(refs)
    paths = {}
    for endpoint in ENDPOINTS:
        wanted, answer = next(schemas), next(schemas)
        input_schema = components[endpoint.input_type.__name__]
        paths[endpoint.path] = {endpoint.method.lower(): _operation(endpoint, wanted, input_schema, answer, problem)}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "regroup control", "version": _version(), "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic", "description": "Any user; the password is the token."},
            },
        },
        "security": [{}, {"bearer": []}, {"basic": []}],
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return plain


def _version() -> str:
    try:
        return version("kafka-regroup")
    except PackageNotFoundError:
        return "unknown"


def _operation(
    endpoint: ControlEndpoint, wanted: Any, input_schema: dict[str, Any], answer: Any, problem: Any
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.description.partition(". ")[0].rstrip("."),
        "description": endpoint.description,
        "tags": [endpoint.path.split("/")[1]],
        "responses": {"200": _answer(endpoint, answer)},
    }
    if endpoint.method == "POST":
        content = {"schema": wanted, "example": endpoint.example}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    else:
        operation["parameters"] = [
            _parameter(endpoint, name, schema, name in input_schema.get("required", ()))
            for name, schema in input_schema["properties"].items()
        ]
    for status in statuses_of(endpoint):
        content = {"application/json": {"schema": problem}}
        operation["responses"][str(status.value)] = {"description": status.meaning, "content": content}
    return operation


def _answer(endpoint: ControlEndpoint, answer: Any) -> dict[str, Any]:
    if endpoint.streams:
        described = "Server-sent events, until the client goes: the data of each is JSON of this schema."
        return {"description": described, "content": {"text/event-stream": {"schema": answer}}}
    return {"description": "Done.", "content": {"application/json": {"schema": answer}}}


def _parameter(endpoint: ControlEndpoint, name: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    parameter = {"name": name, "in": "query", "required": required, "schema": schema}
    if "description" in schema:
        parameter["description"] = schema["description"]
    if name in endpoint.example:
        parameter["example"] = endpoint.example[name]
    return parameter


def statuses_of(endpoint: ControlEndpoint) -> tuple[Status, ...]:
    """The statuses with which an endpoint may refuse a request, in ascending order."""
    with_body = WITH_BODY if endpoint.method == "POST" else ()
    waiting = (Status.TOO_MANY_WAITS,) if endpoint.waits or endpoint.streams else ()
    return tuple(sorted({*EVERYWHERE, *endpoint.refusals, *with_body, *waiting}))
