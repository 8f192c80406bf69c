"""Exchanges of a timeline: their fates, runs, members and messages."""

import asyncio
from collections import Counter

import pytest

from regroup.classroom.reading import read_timelines
from regroup.classroom.recorded.messages import read_messages
from regroup.classroom.recorded_values import ExchangeFate
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse, SyncGroupRequest, SyncGroupResponse
from regroup.server.recording.reading import read_exchanges
from regroup.server.recording.selection import ExchangeFilter
from tests.classroom.recorded.recordings import CONNECTION, Script, join, joined, recorded_run, timeline

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=4, member_id="anna-1")
REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED = 27, 25, 79


def test_an_exchange_has_the_names_and_times_of_its_messages() -> None:
    script = Script()
    script.exchange(join(), joined("anna-1"), version=5, at_ms=1_000, answered_ms=4_000)
    script.exchange(join(group="another"), joined("x"), version=5)
    (only,) = script.exchanges()
    assert (only.number, only.api, only.version, only.client_id, only.member_id) == (
        1,
        "JoinGroup",
        5,
        "anna",
        "anna-1",
    )
    assert (only.at_ms, only.arrived_at_ms, only.answered_at_ms, only.error) == (1_000, 1_000, 4_000, "NONE")
    assert (only.connection, only.correlation_id, only.fate) == (CONNECTION, 1, ExchangeFate.ANSWERED)


@pytest.mark.parametrize(
    ("request_", "code", "is_refused"),
    [
        (HEARTBEAT, 0, False),
        (HEARTBEAT, UNKNOWN_MEMBER_ID, True),
        (HEARTBEAT, REBALANCE_IN_PROGRESS, False),
        (SyncGroupRequest(group_id="g", generation_id=4, member_id="anna-1"), REBALANCE_IN_PROGRESS, True),
        (join(), MEMBER_ID_REQUIRED, False),
    ],
)
def test_a_request_is_refused_if_its_error_changes_nothing(
    request_: HeartbeatRequest, code: int, *, is_refused: bool
) -> None:
    script = Script()
    response = {
        "HeartbeatRequest": HeartbeatResponse(error_code=code),
        "SyncGroupRequest": SyncGroupResponse(error_code=code),
        "JoinGroupRequest": joined("anna-1", code),
    }[type(request_).__name__]
    script.exchange(request_, response, version=4 if code == MEMBER_ID_REQUIRED else 3)
    assert script.exchanges()[0].is_refused is is_refused


def test_a_run_of_heartbeats_is_one_exchange_with_the_times_that_were_stored() -> None:
    script = Script()
    number = script.exchange(HEARTBEAT, HeartbeatResponse(), at_ms=1_000)
    script.again(number, 4_000, count=2)
    script.again(number, 8_000, count=5)
    (run,) = script.exchanges()
    assert (run.count, run.seen_ms, run.last_at_ms, run.generation) == (5, (1_000, 4_000, 8_000), 8_000, 4)
    assert run.error == "NONE"


def test_a_row_that_was_merged_into_another_is_none() -> None:
    script = Script()
    number = script.exchange(HEARTBEAT, HeartbeatResponse())
    script.again(number, 1_000, count=0)
    assert script.exchanges() == ()


def test_a_change_of_a_row_whose_begin_was_deleted_is_left_out() -> None:
    script = Script()
    script.again(7, 4_000, count=2)
    assert script.exchanges() == ()


@pytest.mark.parametrize(
    ("closed", "fault", "fate"),
    [
        ("the connection was lost", "", ExchangeFate.CLOSED),
        ("", "drop request", ExchangeFate.REQUEST_LOST),
        ("", "hold, drop answer", ExchangeFate.RESPONSE_LOST),
        ("", "hold", ExchangeFate.UNANSWERED),
        ("the connection was lost", "close after", ExchangeFate.CLOSED),
    ],
)
def test_a_request_without_a_response_has_a_fate_and_a_reason(closed: str, fault: str, fate: ExchangeFate) -> None:
    script = Script()
    script.exchange(join(), closed=closed, fault=fault)
    (only,) = script.exchanges()
    assert (only.fate, only.answered_at_ms, only.error) == (fate, None, "")
    assert (only.closed_at_ms is not None) is bool(closed)
    assert only.reason == (closed or f"fault rule: {fault}")


@pytest.mark.parametrize(
    ("fault", "fate"),
    [
        ("repeat", ExchangeFate.REPEATED),
        ("hold", ExchangeFate.LATE),
        ("delay", ExchangeFate.LATE),
        ("answer", ExchangeFate.ANSWERED),
    ],
)
def test_what_a_fault_rule_did_to_an_answered_request_is_its_fate(fault: str, fate: ExchangeFate) -> None:
    script = Script()
    script.exchange(join(), joined("anna-1"), fault=fault)
    assert (script.exchanges()[0].fate, script.exchanges()[0].reason) == (fate, f"fault rule: {fault}")


def test_a_request_that_is_sent_again_names_the_one_without_a_response() -> None:
    script = Script()
    script.exchange(join(), closed="the connection was lost", at_ms=1_000)
    script.exchange(join(), joined("ben-1"), client="ben", at_ms=2_000)
    script.exchange(join(), joined("anna-1"), at_ms=3_000)
    script.exchange(join(), joined("anna-1"), at_ms=4_000)
    assert [(each.client_id, each.repeats) for each in script.exchanges()] == [
        ("anna", None),
        ("ben", None),
        ("anna", 1),
        ("anna", None),
    ]


@pytest.mark.quick("[coordinator-crashes-mid-rebalance]", "[2]")
@pytest.mark.parametrize("what", ["coordinator-crashes-mid-rebalance", "partition-of-one-member", 2, 4])
def test_the_exchanges_are_those_that_are_listed_one_by_one(what: str | int) -> None:
    listed = asyncio.run(read_exchanges(recorded_run(what), ExchangeFilter(group="lab")))
    shown = timeline(what).exchanges
    assert Counter((each.api, each.client_id, each.answer) for each in listed for _ in range(each.count)) == Counter(
        (each.api, each.client_id, each.error or "no answer")
        for each in shown
        for _ in range(each.count)
        if each.arrived_at_ms is not None
    )
    assert sorted(event.position for each in listed for event in each.events if event.group == "lab") == sorted(
        position for each in shown for position in each.events
    )


def test_the_messages_of_an_exchange_are_read_on_demand() -> None:
    store, shown = recorded_run("power-fails"), timeline("power-fails").exchanges
    joins = [each for each in shown if each.api == "JoinGroup" and each.error == "NONE"]
    lost = [each for each in shown if each.fate is ExchangeFate.REQUEST_LOST]
    messages = asyncio.run(read_messages(store, [*joins, *lost]))
    for each in joins:
        assert messages[each.number].request["group_id"] == "lab"
        assert messages[each.number].response["member_id"] == each.member_id
    assert lost
    for each in lost:
        assert each.member_id in ("", messages[each.number].request.get("member_id"))
        assert messages[each.number].request
        assert messages[each.number].response is None


def test_only_what_was_not_recorded_is_called_so() -> None:
    assert timeline("first-join").recorded.missing == ()
    store = recorded_run("first-join")

    async def without_recording() -> tuple[str, ...]:
        copy = type(store)()
        await copy.append([record async for record in store.read()])
        return (await read_timelines(copy, ["lab"]))["lab"].recorded.missing

    assert asyncio.run(without_recording()) == (
        "session clocks",
        "lost messages",
        "refused requests",
        "the members' own views",
    )
