"""Endpoints for fault rules, and for the recorded exchanges."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from regroup.control.endpoints.endpoint import ControlEndpoint, ControlledEmulator, Done, NoInput, act, look
from regroup.control.endpoints.fields import FaultNumber, OptionalClient, OptionalGroup, WaitTimeoutS
from regroup.control.errors import Status
from regroup.server.faults.fields import read_rule
from regroup.server.faults.gate import ActiveFault
from regroup.server.faults.rule import FaultRule
from regroup.testing import RecordedExchange
from regroup.testing.faults import AsyncFault

MAX_SHOWN_EXCHANGES = 1_000


ErrorOfRule: TypeAlias = Annotated[int | str | None, Meta(description="An error code of Kafka, by its name or number.")]
Duration: TypeAlias = Annotated[float | str, Meta(description="Seconds, or text such as `300ms`.")]


class NewFaultInput(FaultRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault rule to put in force: all conditions that are given must hold of a request. The fields are those of a
    rule in a file."""

    answer: ErrorOfRule = None  # type: ignore[assignment]
    partition_error: ErrorOfRule = None  # type: ignore[assignment]
    delay_s: Duration = 0.0  # type: ignore[assignment]
    answer_delay_s: Duration = 0.0  # type: ignore[assignment]
    expires_after_s: Duration | None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Check nothing, in contrast to FaultRule: names of errors and texts of durations are converted to numbers
        first, by `rule`, which then checks the rule."""

    def rule(self) -> FaultRule:
        """The fault rule in the form that the brokers use. Raises InvalidFault."""
        return read_rule({name: getattr(self, name) for name in self.__struct_fields__})


class FaultInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names the fault rule that an endpoint is to release or end, by its number."""

    fault: FaultNumber


class WaitHitsInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule, and how many hits of it to wait for."""

    fault: FaultNumber
    hits: Annotated[int, Meta(ge=0, description="So many, counted from its start.")] = 1
    timeout_s: WaitTimeoutS = 10.0


class FaultAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A rule in force, with its counts."""

    fault: Annotated[int, Meta(description="Its number, which no other rule of this process gets.")]
    rule: FaultRule
    effect: str
    hits: Annotated[int, Meta(description="Requests to which something happened.")]
    matched: Annotated[int, Meta(description="Requests of which the conditions held.")]
    holding: Annotated[int, Meta(description="Requests that it holds now.")]
    spent: Annotated[bool, Meta(description="It has hit as often as it may.")]


class ExchangesInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions by which recorded exchanges are selected."""

    api: Annotated[tuple[str, ...], Meta(description="Only of these APIs, by Kafka's names: `JoinGroup`.")] = ()
    client_id: OptionalClient = ""
    group: OptionalGroup = ""
    member: Annotated[str, Meta(description="Only of this member: a member id, an instance id or a client id.")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_SHOWN_EXCHANGES, description="The most rows, the latest ones.")] = 100


class ExpectedExchangesInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The exchanges that a test expects to have been recorded, and which recorded ones they are compared with."""

    expected: Annotated[
        tuple[str, ...],
        Meta(description="APIs in their order, with the answer or without: `Heartbeat: UNKNOWN_MEMBER_ID`."),
    ]
    api: Annotated[tuple[str, ...], Meta(description="Consider only these APIs.")] = ()
    client_id: OptionalClient = ""
    group: OptionalGroup = ""


class ExchangeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its response, or a run of equal heartbeats."""

    at_ms: Annotated[int, Meta(description="When the request came.")]
    answered_at_ms: int | None
    api: str
    version: int
    client_id: str
    connection: str
    correlation_id: int
    groups: tuple[str, ...]
    members: tuple[str, ...]
    request: (
        Annotated[
            dict[str, Any],
            Meta(description="Kafka's fields; bytes in base64. Null if it is undecodable or was too large to keep."),
        ]
        | None
    )
    response: (
        Annotated[dict[str, Any], Meta(description="Null without a response, or where it was too large to keep.")]
        | None
    )
    answer: Annotated[str, Meta(description="The first error in the response, or `NONE`, or `no answer`.")]
    fault: Annotated[str, Meta(description="What a rule did to it.")]
    closed: Annotated[str, Meta(description="Why its connection was closed without an answer.")]
    events: Annotated[tuple[int, ...], Meta(description="Positions of the events to which it led.")]
    count: Annotated[int, Meta(description="Heartbeats of the run.")]
    last_at_ms: int


def fault_answer(fault: ActiveFault) -> FaultAnswer:
    return FaultAnswer(
        fault=fault.number,
        rule=fault.rule,
        effect=fault.rule.effect,
        hits=fault.hits,
        matched=fault.matched,
        holding=len(fault.held),
        spent=fault.is_spent,
    )


def exchange_answer(each: RecordedExchange) -> ExchangeAnswer:
    return ExchangeAnswer(
        at_ms=each.at_ms,
        answered_at_ms=each.answered_at_ms,
        api=each.api,
        version=each.version,
        client_id=each.client_id,
        connection=each.connection,
        correlation_id=each.correlation_id,
        groups=tuple(sorted(each.groups)),
        members=tuple(sorted(each.members)),
        request=None if each.request is None else msgspec.to_builtins(each.request),
        response=None if each.response is None else msgspec.to_builtins(each.response),
        answer=each.answer,
        fault=each.fault,
        closed=each.closed,
        events=tuple(event.position for event in each.events),
        count=each.count,
        last_at_ms=each.last_at_ms,
    )


async def faults(controlled: ControlledEmulator, wanted: NoInput) -> tuple[FaultAnswer, ...]:
    """List the rules in force, those of the command line and the prompt too, with their hits. Of several rules the
    first that hits a request decides."""
    return tuple(map(fault_answer, controlled.emulator.interference.faults.active()))


async def add_fault(controlled: ControlledEmulator, wanted: NewFaultInput) -> FaultAnswer:
    """Put a rule in force. With `hold` the requests wait until the rule is released or removed."""
    return fault_answer(controlled.emulator.interference.faults.add(wanted.rule()))


async def wait_hits(controlled: ControlledEmulator, wanted: WaitHitsInput) -> FaultAnswer:
    """Wait until a rule has hit so many requests."""
    emulator, rules = controlled.emulator, controlled.emulator.interference.faults
    fault = rules.find(wanted.fault)
    handle = AsyncFault(rules, fault, emulator.changes, emulator.wait_timeout_s)
    await handle.wait_hits(wanted.hits, timeout_s=wanted.timeout_s)
    return fault_answer(fault)


async def release_fault(controlled: ControlledEmulator, wanted: FaultInput) -> FaultAnswer:
    """Go on with the requests that a rule holds; later ones are held again."""
    fault = controlled.emulator.interference.faults.find(wanted.fault)
    fault.release()
    return fault_answer(fault)


async def remove_fault(controlled: ControlledEmulator, wanted: FaultInput) -> FaultAnswer:
    """End a rule, and go on with the requests that it holds. The answer has its last counts."""
    rules = controlled.emulator.interference.faults
    fault = rules.find(wanted.fault)
    rules.remove(fault)
    return fault_answer(fault)


async def exchanges(controlled: ControlledEmulator, wanted: ExchangesInput) -> tuple[ExchangeAnswer, ...]:
    """List recorded requests with their responses, the oldest first. The latest 10,000 are kept."""
    found = await controlled.emulator.exchanges(
        api=wanted.api, client_id=wanted.client_id, group=wanted.group, member=wanted.member
    )
    return tuple(map(exchange_answer, found[-wanted.limit :]))


async def assert_exchanges(controlled: ControlledEmulator, wanted: ExpectedExchangesInput) -> Done:
    """Compare the recorded exchanges with those that a test expects; 409 shows both."""
    await controlled.emulator.assert_exchanges(
        list(wanted.expected), api=wanted.api, client_id=wanted.client_id, group=wanted.group
    )
    return Done()


_GONE, _NO = Status.NOT_FOUND, Status.REFUSED
ENDPOINTS: tuple[ControlEndpoint, ...] = (
    look("/faults", faults),
    act("/fault/add", add_fault, _NO, on="OffsetCommit", answer="NOT_COORDINATOR", times=2),
    look("/fault/wait-hits", wait_hits, _GONE, _NO, waits=True, fault=1, hits=2),
    act("/fault/release", release_fault, _GONE, fault=1),
    act("/fault/remove", remove_fault, _GONE, fault=1),
    look("/exchanges", exchanges, api="JoinGroup", group="billing"),
    act(
        "/exchanges/assert", assert_exchanges, _NO, expected=["JoinGroup: NONE"], client_id="second", api=["JoinGroup"]
    ),
)
