"""The OpenAPI document says what the handlers take and answer, and every method of the kit has its endpoint."""

import inspect
import json
from itertools import chain
from typing import Any

import jsonschema
import pytest

from regroup.control.document import openapi_document, statuses_of
from regroup.control.endpoints.all import ENDPOINTS
from regroup.control.endpoints.endpoint import ControlEndpoint
from regroup.control.errors import Status
from regroup.testing import AsyncEmulator, AsyncFault, AsyncGroup, Emulator
from tests.control.conftest import Answer, Control
from tests.testing.conftest import commit, stable_pair

DOCUMENT = openapi_document()
OPERATIONS = {
    (path, method): operation for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
}
# Not to the busy group: a member whose JoinGroup is held there waits five seconds for the response to its LeaveGroup.
ADD_ANNA = ("/simulated-member/add", {"group": "shipping", "topics": ["orders"], "client_id": "anna"})
BEFORE: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "/group/complete-join-phase": [("/group/rebalance", {"group": "billing"})],
    "/emulator/restart": [("/emulator/kill", {})],
    "/broker/start": [("/broker/stop", {"broker": 1})],
    "/coordinator/move": [("/coordinator/move", {"group": "billing", "broker": 1})],
    "/coordinator/finish-loading": [("/coordinator/begin-loading", {"group": "billing"})],
    "/client/revive": [("/client/crash", {"client": "second"})],
    "/topic/delete": [("/topic/create", {"topic": "payments"})],
    "/simulated-member/start": [ADD_ANNA, ("/simulated-member/crash", {"client": "anna"})],
    **{
        f"/simulated-member/{act}": [ADD_ANNA]
        for act in ("crash", "leave", "pause", "resume", "slow", "restart", "fault", "remove")
    },
}
"""What must happen before the example of an endpoint can."""
LEFT_OUT = {
    "advance": "the clock of `regroup serve` is the machine's",
    "advance_to_next_deadline": "as advance",
    "manual_loop": "as advance",
    "close": "SIGTERM does it",
    "start": "the port exists only after it",
    "connect": "a client of the language connects",
    "save": "the store is a file already",
    "group": "the name travels in each request",
    "hold": "/fault/add with hold",
    "loading": "/coordinator/begin-loading",
    "end_sessions_of": "/client/crash",
    "check_coordinator": "each act checks it",
    "now_ms": "/emulator",
    "position": "/emulator",
}
"""Methods of the kit without an endpoint of their own."""
NAMED_OTHERWISE = {
    "groups": "/groups",
    "recorded_exchanges": "/exchanges",
    "now": "/group",
    "committed": "/group/committed",
    "events": "/group/events",
    "wait_until": "/group/wait",
    "wait_until_stable": "/group/wait-stable",
    "expire": "/group/expire",
    "remove": "/group/remove",
    "rebalance": "/group/rebalance",
    "complete_join_phase": "/group/complete-join-phase",
    "bump_generation": "/group/bump-generation",
    "forget_offsets": "/group/forget-offsets",
    "delete": "/group/delete",
    "kill": "/emulator/kill",
    "restart": "/emulator/restart",
    "crash_client": "/client/crash",
    "revive_client": "/client/revive",
    "stop_broker": "/broker/stop",
    "start_broker": "/broker/start",
    "slow_broker": "/broker/slow",
    "coordinator_of": "/coordinator",
    "move_coordinator": "/coordinator/move",
    "begin_loading": "/coordinator/begin-loading",
    "finish_loading": "/coordinator/finish-loading",
    "create_topic": "/topic/create",
    "add_partitions": "/topic/add-partitions",
    "delete_topic": "/topic/delete",
    "produce": "/topic/produce",
    "records": "/topic/records",
    "fault": "/fault/add",
    "wait_hits": "/fault/wait-hits",
    "release": "/fault/release",
    "assert_exchanges": "/exchanges/assert",
}


def validate(value: Any, schema: dict[str, Any]) -> None:
    """Raise ValidationError unless the value is what the schema of the document says."""
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


def schema_of(operation: dict[str, Any], status: int) -> dict[str, Any]:
    schema: dict[str, Any] = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    return schema


def send(control: Control, endpoint: ControlEndpoint, wanted: dict[str, Any]) -> Answer:
    if endpoint.method == "GET":
        return control.get(endpoint.path, **wanted)
    return control.post(endpoint.path, **wanted)


@pytest.fixture
def busy(kafka: Emulator) -> Emulator:
    """A stable group with an offset, a record, and the rule 1, which has hit two requests."""
    first, _ = stable_pair(kafka)
    kafka.produce("orders", "one")
    commit(first, {0: 1})
    kafka.fault(on="Heartbeat", throttle_ms=1)
    first.heartbeat()
    first.heartbeat()
    return kafka


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_the_answer_to_the_example_has_the_documented_schema(
    busy: Emulator, control: Control, endpoint: ControlEndpoint
) -> None:
    for path, body in BEFORE.get(endpoint.path, ()):
        control.act(path, **body)
    operation = OPERATIONS[endpoint.path, endpoint.method.lower()]
    if endpoint.streams:
        with control.stream(endpoint.path, **endpoint.example) as stream:
            validate(stream.next(), operation["responses"]["200"]["content"]["text/event-stream"]["schema"])
        return
    answer = send(control, endpoint, endpoint.example)
    assert answer.status == 200, answer
    validate(answer.json, schema_of(operation, 200))


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_the_example_is_what_the_endpoint_takes(endpoint: ControlEndpoint) -> None:
    operation = OPERATIONS[endpoint.path, endpoint.method.lower()]
    if endpoint.method == "POST":
        validate(endpoint.example, operation["requestBody"]["content"]["application/json"]["schema"])
        return
    parameters = {each["name"]: each for each in operation["parameters"]}
    assert set(endpoint.example) <= set(parameters)
    assert {name for name, each in parameters.items() if each["required"]} <= set(endpoint.example)
    for name, value in endpoint.example.items():
        if parameters[name]["schema"].get("type") != "array":
            validate(value, parameters[name]["schema"])


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_an_unknown_field_is_refused_in_the_documented_way(looked_at: Control, endpoint: ControlEndpoint) -> None:
    answer = send(looked_at, endpoint, {**endpoint.example, "unknown_field": 1})
    assert (answer.status, "unknown_field" in answer.error) == (422, True)
    validate(answer.json, schema_of(OPERATIONS[endpoint.path, endpoint.method.lower()], 422))


@pytest.mark.parametrize("endpoint", [each for each in ENDPOINTS if each.method == "POST"], ids=lambda each: each.path)
def test_an_act_is_refused_as_a_get(looked_at: Control, endpoint: ControlEndpoint) -> None:
    answer = looked_at.get(endpoint.path)
    assert (answer.status, answer.error) == (405, f"{endpoint.path} takes POST, not GET")
    assert answer.headers["allow"] == "POST"


def test_the_served_document_is_this_one(looked_at: Control) -> None:
    answer = looked_at.get("/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json == DOCUMENT


def test_every_reference_in_the_document_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [each for part in value.values() for each in references(part)]
        return [each for part in value for each in references(part)] if isinstance(value, list) else []

    found = references(DOCUMENT)
    assert {each.rpartition("/")[2] for each in found} == set(schemas) - unreferenced_inputs()
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert json.dumps(DOCUMENT)


def unreferenced_inputs() -> set[str]:
    """The inputs of GET: they are written as parameters."""
    by_get = {each.input_type.__name__ for each in ENDPOINTS if each.method == "GET"}
    return by_get - {each.input_type.__name__ for each in ENDPOINTS if each.method == "POST"}


def test_operations_have_names_of_their_own_and_texts() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names) == len(ENDPOINTS)
    assert all(operation["description"].endswith(".") for operation in OPERATIONS.values())


def test_every_status_has_a_meaning_and_is_used() -> None:
    documented = set(chain.from_iterable(statuses_of(each) for each in ENDPOINTS))
    assert set(Status) - documented == {Status.METHOD_NOT_ALLOWED}
    assert all(status.meaning.endswith(".") for status in Status)


@pytest.mark.parametrize("kind", [AsyncEmulator, AsyncGroup, AsyncFault])
def test_every_method_of_the_kit_has_an_endpoint_or_a_reason(kind: type) -> None:
    paths = {each.path for each in ENDPOINTS}
    methods = {name for name, member in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    for name in methods - set(LEFT_OUT):
        path = NAMED_OTHERWISE.get(name, f"/{name.replace('_', '-')}")
        assert path in paths or (kind, name) in {(AsyncGroup, "story"), (AsyncFault, "remove")}, name
    assert {"/group/story", "/fault/remove"} <= paths
