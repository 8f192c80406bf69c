"""The rows of the survey: each fault with the moment at which it is put in force."""

from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from regroup.protocol.errors import ErrorCode
from regroup.server.faults.rule import FaultRule
from regroup.testing import Emulator
from regroup.testing.faults import FaultOptions
from tests.clients.survey.profile import CLIENT_ID, GROUP, LIMIT_MS, LOADING_S, LOOKUP_DELAY_S, THROTTLE_MS

Moment: TypeAlias = Literal["start", "rebalance", "stable"]
"""Before the client starts; in a Stable group, with a rebalance that makes the client join again; in a Stable group."""
CUT_ANSWER: Final = "commit-answer-cut"


class SurveyedFault(NamedTuple):
    """One fault: a rule, or an act whose effect the client sees as an error code, or a rule and an act beside it."""

    name: str
    """On the command line: `lost-commit-answer`."""
    title: str
    moment: Moment
    rule: FaultOptions | None = None
    act: Callable[[Emulator], object] | None = None
    evidence: tuple[str, ...] = ()
    """Of an act: the error codes of which one shows that the client was hit."""
    seen_by: tuple[str, ...] = ()
    """Of an act: the APIs that a client uses only if it has noticed the act in another way."""
    is_static: bool = False
    """The client is a static member."""
    is_beyond_kafka: bool = False
    """Apache Kafka does not do this; other brokers with its protocol may."""
    limit_ms: int = LIMIT_MS
    """A client that has not recovered by then counts as not recovered."""


def fence(kafka: Emulator) -> None:
    """Join with the instance id of the client, as a second process of it would."""
    latest = kafka.exchanges(api="JoinGroup", client_id=CLIENT_ID)[-1]
    request = replace(latest.request, member_id="")
    with kafka.connect("twin", group=GROUP) as twin:
        twin.send(request, version=latest.version)


def rule(name: str, title: str, on: str, moment: Moment, **effect: object) -> SurveyedFault:
    """A rule that hits the client's first matching request."""
    options: FaultOptions = {"on": on, "group": GROUP, "client_id": CLIENT_ID, "times": 1, **effect}  # type: ignore[typeddict-item]
    return SurveyedFault(name, title, moment, rule=options)


MOMENTS: Final[dict[str, Moment]] = {
    "FindCoordinator": "start",
    "JoinGroup": "rebalance",
    "SyncGroup": "rebalance",
    "OffsetFetch": "start",
    "Heartbeat": "stable",
    "OffsetCommit": "stable",
}
CODES: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


def slow_lookup() -> SurveyedFault:
    """A broker answers requests of one connection in turn, so a lookup waits behind a Fetch that waits for records."""
    title = (
        f"OffsetCommit is answered NOT_COORDINATOR once, and each FindCoordinator after {LOOKUP_DELAY_S * 1000:.0f} ms"
    )
    refused = rule("slow-lookup", title, "OffsetCommit", "stable", answer=ErrorCode.NOT_COORDINATOR)
    delay: FaultOptions = {"on": "FindCoordinator", "client_id": CLIENT_ID, "answer_delay_s": LOOKUP_DELAY_S}
    return refused._replace(act=lambda kafka: kafka.fault(**delay))


NOT_ANSWERED_BY_KAFKA: Final = {
    ("FindCoordinator", ErrorCode.NOT_COORDINATOR),
    ("FindCoordinator", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ("Heartbeat", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),  # heartbeats succeed unchecked while a group is loaded
}


def retriable_codes() -> Iterator[SurveyedFault]:
    """Each retriable code of a coordinator on each API, once."""
    for api, moment in MOMENTS.items():
        for code in CODES:
            name = f"{api}-{code.name}".lower().replace("_", "-")
            fault = rule(name, f"{api} is answered {code.name} once", api, moment, answer=code)
            yield fault._replace(is_beyond_kafka=(api, code) in NOT_ANSWERED_BY_KAFKA)


def lost_answers() -> Iterator[SurveyedFault]:
    for api in ("JoinGroup", "SyncGroup", "OffsetCommit", "Heartbeat"):
        short = {"JoinGroup": "join", "SyncGroup": "sync", "OffsetCommit": "commit"}.get(api, api.lower())
        title = (
            f"{api} is applied and never answered; the connection stays open, and the broker reads nothing more from it"
        )
        yield rule(f"lost-{short}-answer", title, api, MOMENTS[api], drop="answer")


def other_rules() -> Iterator[SurveyedFault]:
    commit = "OffsetCommit"
    title = "the connection closes in the join phase: after JoinGroup was applied, in place of the response"
    yield rule("join-phase-closed", title, "JoinGroup", "rebalance", close="after")
    title = "the connection closes after OffsetCommit was applied, in place of the response"
    yield rule("commit-applied-closed", title, commit, "stable", close="after")
    yield rule("commit-applied-twice", "OffsetCommit is applied twice and answered once", commit, "stable", repeat=True)
    title = f"OffsetCommit is answered with throttle_time_ms = {THROTTLE_MS}"
    yield rule("commit-throttled", title, commit, "stable", throttle_ms=THROTTLE_MS)
    for code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
        name = f"commit-{code.name}".lower().replace("_", "-")
        yield rule(name, f"OffsetCommit is answered {code.name} once", commit, "stable", answer=code)


def cut_answers() -> Iterator[SurveyedFault]:
    """A truncated answer, as soon as fault rules can cut one."""
    if "cut" in FaultRule.__struct_fields__:
        title = "the answer to OffsetCommit is cut short after the commit was applied, and the connection closes"
        yield rule(CUT_ANSWER, title, "OffsetCommit", "stable", cut="frame")


def acts() -> Iterator[SurveyedFault]:
    yield SurveyedFault(
        "coordinator-moved",
        "the coordinator moves to another broker, with the leadership of some partitions: NOT_COORDINATOR from the old "
        "one, or a FindCoordinator of a client that has noticed it by the partitions",
        "stable",
        act=lambda kafka: kafka.move_coordinator(GROUP),
        evidence=("NOT_COORDINATOR",),
        seen_by=("FindCoordinator",),
    )
    yield SurveyedFault(
        "coordinator-loading",
        f"the coordinator loads its groups for {LOADING_S:g} s: COORDINATOR_LOAD_IN_PROGRESS, but heartbeats succeed",
        "stable",
        act=lambda kafka: kafka.begin_loading(GROUP, LOADING_S),
        evidence=("COORDINATOR_LOAD_IN_PROGRESS",),
        limit_ms=LIMIT_MS + int(LOADING_S * 1000),
    )
    yield SurveyedFault(
        "fenced-static-member",
        "a second process joins with the instance id of the client, and sends nothing further: "
        "FENCED_INSTANCE_ID, or UNKNOWN_MEMBER_ID if the client's version of the API has no instance id",
        "stable",
        act=fence,
        evidence=("FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID"),  # the latter if the request has no instance id,
        is_static=True,
    )
    yield SurveyedFault(
        "unknown-member",
        "the member is removed from the Stable group: UNKNOWN_MEMBER_ID",
        "stable",
        act=lambda kafka: kafka.group(GROUP).remove(CLIENT_ID),
        evidence=("UNKNOWN_MEMBER_ID",),
    )
    yield SurveyedFault(
        "generation-bumped",
        "the generation grows without a rebalance: ILLEGAL_GENERATION",
        "stable",
        act=lambda kafka: kafka.group(GROUP).bump_generation(),
        evidence=("ILLEGAL_GENERATION",),
        is_beyond_kafka=True,
    )


FAULTS: Final = {
    each.name: each
    for each in (*lost_answers(), *acts(), slow_lookup(), *other_rules(), *cut_answers(), *retriable_codes())
}
