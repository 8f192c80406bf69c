"""The sessions that the table of heartbeats assumes, beside what the coordinator says when it removes a member."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from regroup.pipeline.gold.recorded.heartbeats import BEFORE_EVENTS, EVENTS, heartbeats_of_group
from regroup.pipeline.gold.recorded.member_sessions import MemberSessions
from regroup.pipeline.gold.table_files import TABLE_SCHEMAS
from tests.pipeline.gold.recorded.recorded_stores import Row, rows_in_order, run_seed

GROUP = "lab"


def replayed(rows: Iterable[Row]) -> Iterator[tuple[Row, MemberSessions]]:
    """Each event with the sessions before it."""
    sessions = MemberSessions()
    for row in rows:
        if row["turn"] == EVENTS:
            yield row, sessions
            sessions.on_event(row["kind"], row["at_ms"], json.loads(row["payload"]))
        elif row["turn"] == BEFORE_EVENTS:
            is_certain = row["error"] is not None and not row["fault"]
            sessions.on_request(row["at_ms"], row["member_id"] or "", row["api"], is_certain=is_certain)


QUICK_SEEDS = (2, 9, 12, 13, 25, 29, 34, 36)


@pytest.mark.parametrize("seeds", [QUICK_SEEDS, range(1, 25)], ids=["few", "many"])
@pytest.mark.quick("few")
def test_each_removal_names_the_time_and_the_timeout_of_the_session(tmp_path: Path, seeds: Iterable[int]) -> None:
    compared = 0
    for seed in seeds:
        for row, sessions in replayed(list(rows_in_order(run_seed(seed, tmp_path / f"{seed}.db"), GROUP))):
            removed = json.loads(row["payload"])
            session = sessions.members.get(removed.get("member_id", ""))
            if row["kind"] == "member-removed" and "session timeout" in removed["reason"] and session is not None:
                assert session.last_seen_ms in (removed["last_seen_ms"], None), f"seed {seed}"
                assert session.timeout_ms == removed["timeout_ms"], f"seed {seed}"
                compared += session.last_seen_ms is not None
    assert compared >= 8


def event(kind: str, at_ms: int, **payload: Any) -> Row:
    return {"turn": EVENTS, "kind": kind, "at_ms": at_ms, "payload": json.dumps(payload), "member_id": None}


def heartbeat(at_ms: int, error: str | None = "NONE", **changes: Any) -> Row:
    row = {"turn": BEFORE_EVENTS, "kind": "heartbeat", "at_ms": at_ms, "api": "Heartbeat", "error": error}
    row |= {"member_id": "anna-1", "instance_id": None, "client_id": "anna", "generation_id": 1}
    return row | {"fault": None, "requests": 1, **changes}


JOINED = (
    event("member-joined", 1_000, member_id="anna-1", profile={"session_timeout_ms": 6_000}),
    event("generation-started", 4_000),
)


def since(*rows: Row) -> list[int | None]:
    return [row.get("since_last_seen_ms") for row in heartbeats_of_group([*JOINED, *rows])]


def test_a_heartbeat_has_the_time_since_the_response_or_the_heartbeat_before() -> None:
    assert since(heartbeat(7_000), heartbeat(12_500)) == [3_000, 5_500]


def test_after_a_heartbeat_without_a_response_the_session_is_not_known_until_the_next_one() -> None:
    assert since(heartbeat(7_000, None), heartbeat(9_000), heartbeat(11_000)) == [3_000, None, 2_000]


def test_what_a_fault_rule_answered_may_not_have_reached_the_coordinator() -> None:
    assert since(heartbeat(7_000, fault="answer NONE"), heartbeat(9_000)) == [3_000, None]


def test_a_commit_that_was_too_large_may_not_have_reached_the_coordinator() -> None:
    commit = heartbeat(7_000, "UNKNOWN_SERVER_ERROR", kind="seen", api="OffsetCommit")
    assert since(commit, heartbeat(8_000), heartbeat(9_000)) == [None, 1_000]


def test_of_several_heartbeats_in_one_row_the_single_times_are_not_known() -> None:
    assert since(heartbeat(7_000, requests=3), heartbeat(8_000)) == [None, 1_000]


def test_the_session_does_not_run_while_a_request_is_held() -> None:
    synced = event("member-synced", 5_000, member_id="anna-1", awaits_assignment=True)
    assert since(synced, heartbeat(7_000), event("assignment-committed", 8_000), heartbeat(9_000)) == [None, 1_000]


def test_the_new_process_of_a_static_member_has_the_former_timeout_until_it_is_seen() -> None:
    replaced = event(
        "static-member-replaced",
        5_000,
        member_id="anna-2",
        replaced_member_id="anna-1",
        profile={"session_timeout_ms": 30_000},
        awaits_join=False,
    )
    rows = heartbeats_of_group([*JOINED, replaced, *(heartbeat(each, member_id="anna-2") for each in (8_000, 9_000))])
    assert [row["session_timeout_ms"] for row in rows] == [6_000, 30_000]


@pytest.mark.parametrize(("kind", "ended_by"), [("member-removed", "removed"), ("member-left", "left")])
def test_a_heartbeat_after_the_members_end_has_the_time_since_then(kind: str, ended_by: str) -> None:
    late = heartbeat(10_250, "UNKNOWN_MEMBER_ID", turn=2)
    [row] = heartbeats_of_group([*JOINED, event(kind, 10_000, member_id="anna-1"), late])
    assert (row["ended_by"], row["after_end_ms"]) == (ended_by, 250)
    assert "session_timeout_ms" not in row


def test_a_commit_starts_the_session_again_in_a_classic_group_only() -> None:
    commit = heartbeat(7_000, kind="seen", api="OffsetCommit")
    assert since(commit, heartbeat(8_000)) == [1_000]
    upgraded = event("group-upgraded", 6_000, profiles={"anna-1": {"session_timeout_ms": 6_000}})
    assert since(upgraded, commit, heartbeat(8_000)) == [2_000]


@pytest.mark.parametrize(
    "payload",
    [
        "{",
        "{}",
        "[1]",
        '{"member_id": "anna-1", "profile": {"session_timeout_ms": "soon"}}',
        '{"member_id": "anna-1", "profile": {"session_timeout_ms": 1e99}}',
        '{"member_id": ["anna-1"], "profile": {"session_timeout_ms": 6000}}',
    ],
)
def test_after_an_event_that_cannot_be_read_the_heartbeats_of_its_group_have_no_session(payload: str) -> None:
    damaged = event("member-joined", 5_000) | {"payload": payload}
    rejoined = event("member-joined", 8_000, member_id="anna-1", profile={"session_timeout_ms": 6_000})
    rows = list(heartbeats_of_group([*JOINED, heartbeat(4_500), damaged, heartbeat(7_000), rejoined, heartbeat(9_000)]))
    assert [row.get("session_timeout_ms") for row in rows] == [6_000, None, None]
    pa.RecordBatch.from_pylist(rows, TABLE_SCHEMAS["heartbeats"])
