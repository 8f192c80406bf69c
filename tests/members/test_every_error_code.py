"""Every error code that Kafka has, in every answer of the group APIs: what the member does then."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regroup.members.consumer.effects import CommitEnded, ErrorKind, PartitionsLost
from regroup.members.consumer.inputs import Commit, EnforceRebalance, Poll
from regroup.members.consumer.state import Phase
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.members.conftest import Stage

    StageWith = Callable[..., Stage]

ORDERS_0 = TopicPartition("orders", 0)
FAILURES = [code for code in ErrorCode if code != ErrorCode.NONE]

JAVA = (Path(__file__).parent / "java_consumer.txt").read_text(encoding="utf-8")
ROWS = {
    (api, code): what for api, code, what in re.findall(r"^(\w[\w-]+) {2,}(\w[\w ]*?) {2,}(.+)$", JAVA, re.MULTILINE)
}
RETRIABLE = frozenset(JAVA.partition("RetriableException):")[2].split())
THROWN = {
    "CommitFailedException": ErrorKind.COMMIT_FAILED,
    "FencedInstanceIdException": ErrorKind.FENCED,
    "RebalanceInProgressException": ErrorKind.REBALANCE_IN_PROGRESS,
}


def java(api: str, code: ErrorCode) -> str:
    """What the Java client does about this code in this answer."""
    candidates = [code.name, *(["any retriable code"] if code.name in RETRIABLE else []), "any other code"]
    return next(ROWS[api, each] for each in candidates if (api, each) in ROWS)


def names(code: ErrorCode) -> str:
    return code.name


def check_identity(stage: Stage, does: str) -> None:
    generation = stage.consumer.generation
    number = -1 if "loses" in does else 1
    member_id = "" if "loses member id" in does else "anna"
    assert (generation.number, generation.member_id) == (number, member_id)


def check_whereabouts(stage: Stage, does: str, request: str) -> None:
    """It looks the coordinator up, asks again at once or after a pause, or throws."""
    assert len(stage.raised) == ("throws" in does)
    if "throws" in does:
        return
    if "looks up" in does:
        assert stage.names() == ["FindCoordinator"]
        stage.coordinator_found()
    if "pauses" in does:
        assert request not in stage.names()
        stage.pass_time(100)
    assert request in stage.names()


def test_every_row_of_the_table_is_about_a_code_that_exists() -> None:
    codes = {code.name for code in ErrorCode} | {"any retriable code", "any other code"}
    assert {code for _, code in ROWS} <= codes
    assert len(ROWS) == 38
    assert {code.name for code in ErrorCode if code.retriable} == RETRIABLE


@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_join_group_refused(stage: Stage, code: ErrorCode) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.said.clear()
    stage.when(EnforceRebalance())
    stage.answer(JoinGroupRequest, JoinGroupResponse(error_code=code, member_id="given"))
    does = java("JoinGroup", code)
    if "takes the given id" in does:
        assert (stage.consumer.generation.number, stage.consumer.generation.member_id) == (-1, "given")
        assert stage.names() == ["JoinGroup"]
        return
    check_identity(stage, does)
    check_whereabouts(stage, does, "JoinGroup")
    assert bool(stage.all(PartitionsLost)) is ("loses" in does)


@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_sync_group_refused(stage: Stage, code: ErrorCode) -> None:
    stage.subscribed()
    stage.coordinator_found()
    stage.joined()
    stage.answer(SyncGroupRequest, SyncGroupResponse(error_code=code))
    does = java("SyncGroup", code)
    check_identity(stage, does)
    check_whereabouts(stage, does, "JoinGroup")
    if "throws" in does:
        stage.when(Poll())
        assert "JoinGroup" in stage.names()


@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_heartbeat_refused(stage: Stage, code: ErrorCode) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.said.clear()
    stage.pass_time(3_000)
    stage.heartbeat_answered(code)
    does = java("Heartbeat", code)
    check_identity(stage, does)
    assert bool(stage.all(PartitionsLost)) is ("loses" in does and "throws" not in does)
    check_whereabouts(stage, does, "JoinGroup" if "at once" in does else "Heartbeat")


@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_find_coordinator_refused(stage: Stage, code: ErrorCode) -> None:
    stage.subscribed()
    refusal = Coordinator(key="payments", node_id=-1, host="", port=-1, error_code=code)
    stage.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[refusal]))
    check_whereabouts(stage, java("FindCoordinator", code), "FindCoordinator")


@pytest.mark.parametrize("wait", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_offset_commit_refused(stage: Stage, code: ErrorCode, wait: bool) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.said.clear()
    stage.when(Commit({ORDERS_0: 7}, wait=wait))
    stage.commit_answered(code)
    does = java("OffsetCommit", code)
    ended = stage.all(CommitEnded)
    check_identity(stage, does)
    assert stage.raised == []
    if wait and "pauses" in does:
        assert ended == []
        check_whereabouts(stage, does, "OffsetCommit")
        return
    thrown = ErrorKind.RETRIABLE_COMMIT_FAILED if "pauses" in does else THROWN.get(does.split()[-1], ErrorKind.GROUP)
    assert ended[0].error is not None
    assert (ended[0].error.kind, ended[0].error.code) == (thrown, code)
    assert ("JoinGroup" in stage.names()) is (code == ErrorCode.REBALANCE_IN_PROGRESS or "loses" in does)


@pytest.mark.parametrize("code", FAILURES, ids=names)
@pytest.mark.parametrize("level", ["group", "partition"])
def test_offset_fetch_refused(stage: Stage, code: ErrorCode, level: str) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.offsets_fetched(**{"group_code" if level == "group" else "code": int(code)})
    check_whereabouts(
        stage, java("OffsetFetch" if level == "group" else "OffsetFetch-of-one-partition", code), "OffsetFetch"
    )


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION], ids=names)
def test_a_heartbeat_of_an_older_generation_is_refused_and_nobody_cares(stage: Stage, code: ErrorCode) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.pass_time(3_000)
    stage.when(EnforceRebalance())
    stage.joined(2, leader="ben")
    stage.heartbeat_answered(code)
    assert stage.consumer.generation.number == 2


@pytest.mark.parametrize("phase", [Phase.PREPARING, Phase.COMPLETING])
def test_a_rebalance_that_is_already_under_way_is_no_news(stage: Stage, phase: Phase) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.pass_time(3_000)
    stage.when(EnforceRebalance())
    if phase is Phase.COMPLETING:
        stage.joined(2, leader="ben")
    assert stage.consumer.phase is phase
    before = [name for name in stage.names() if name != "Heartbeat"]
    stage.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert [name for name in stage.names() if name != "Heartbeat"] == before


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID], ids=names
)
def test_a_late_refusal_of_a_commit_does_not_harm_the_generation_that_is_being_formed(
    stage: Stage, code: ErrorCode
) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.when(Commit({ORDERS_0: 7}))
    stage.when(EnforceRebalance())
    # The coordinator hands out a new id meanwhile, so that the member is no longer who it was when it committed.
    stage.answer(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="new"))
    assert stage.consumer.phase is Phase.PREPARING
    stage.commit_answered(code)
    error = stage.all(CommitEnded)[0].error
    assert error is not None
    assert error.kind is ErrorKind.REBALANCE_IN_PROGRESS
    assert stage.consumer.generation.member_id == "new"
