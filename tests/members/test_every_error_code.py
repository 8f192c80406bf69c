"""Every error code that Kafka has, in every answer of the group APIs: what the member does then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from regroup.members.happenings import Commit, EnforceRebalance, Poll
from regroup.members.reactions import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    Forgets,
    Reaction,
    Then,
)
from regroup.members.standing import Phase
from regroup.members.steps import CommitEnded, ErrorKind, PartitionsLost
from regroup.protocol.consumer_protocol import TopicPartition
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


def names(code: ErrorCode) -> str:
    return code.name


def check_identity(stage: Stage, reaction: Reaction) -> None:
    generation = stage.consumer.generation
    expected = {
        Forgets.NOTHING: (1, "anna"),
        Forgets.GENERATION: (-1, "anna"),
        Forgets.MEMBER_ID: (-1, ""),
    }[reaction.forgets]
    assert (generation.number, generation.member_id) == expected


def check_whereabouts(stage: Stage, reaction: Reaction, request: str) -> None:
    """It looks the coordinator up, asks again at once or after a pause, or throws."""
    if reaction.then is Then.RAISE:
        assert len(stage.raised) == 1
        assert stage.raised[0].fatal is reaction.fatal
        return
    assert stage.raised == []
    if reaction.finds_coordinator:
        assert stage.names() == ["FindCoordinator"]
        stage.coordinator_found()
    if reaction.then is Then.AFTER_BACKOFF:
        assert request not in stage.names()
        stage.pass_time(100)
    assert request in stage.names()


@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_join_group_refused(stage: Stage, code: ErrorCode) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.said.clear()
    stage.when(EnforceRebalance())
    stage.answer(JoinGroupRequest, JoinGroupResponse(error_code=code, member_id="given"))
    if code == ErrorCode.MEMBER_ID_REQUIRED:
        assert (stage.consumer.generation.number, stage.consumer.generation.member_id) == (-1, "given")
        assert stage.names() == ["JoinGroup"]
        return
    reaction = JOIN_GROUP.get(code, Reaction(Then.RAISE))
    check_identity(stage, reaction)
    check_whereabouts(stage, reaction, "JoinGroup")
    assert bool(stage.all(PartitionsLost)) is (reaction.forgets is not Forgets.NOTHING)


@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_sync_group_refused(stage: Stage, code: ErrorCode) -> None:
    stage.subscribed()
    stage.coordinator_found()
    stage.joined()
    stage.answer(SyncGroupRequest, SyncGroupResponse(error_code=code))
    reaction = SYNC_GROUP.get(code, Reaction(Then.RAISE))
    check_identity(stage, reaction)
    check_whereabouts(stage, reaction, "JoinGroup")
    if reaction.then is Then.RAISE:
        stage.when(Poll())
        assert "JoinGroup" in stage.names()


@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_heartbeat_refused(stage: Stage, code: ErrorCode) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.said.clear()
    stage.pass_time(3_000)
    stage.heartbeat_answered(code)
    reaction = HEARTBEAT.get(code, Reaction(Then.AFTER_BACKOFF))
    check_identity(stage, reaction)
    assert bool(stage.all(PartitionsLost)) is (reaction.forgets is not Forgets.NOTHING and not stage.raised)
    check_whereabouts(stage, reaction, "JoinGroup" if reaction.then is Then.AT_ONCE else "Heartbeat")


@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_find_coordinator_refused(stage: Stage, code: ErrorCode) -> None:
    stage.subscribed()
    refusal = Coordinator(key="payments", node_id=-1, host="", port=-1, error_code=code)
    stage.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[refusal]))
    check_whereabouts(stage, FIND_COORDINATOR.get(code, Reaction(Then.RAISE)), "FindCoordinator")


@pytest.mark.parametrize("wait", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("code", FAILURES, ids=names)
def test_offset_commit_refused(stage: Stage, code: ErrorCode, wait: bool) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.said.clear()
    stage.when(Commit({ORDERS_0: 7}, wait=wait))
    stage.commit_answered(code)
    reaction = OFFSET_COMMIT.get(code, Reaction(Then.RAISE))
    ended = stage.all(CommitEnded)
    check_identity(stage, reaction)
    if wait and reaction.then is Then.AFTER_BACKOFF:
        assert ended == []
        check_whereabouts(stage, reaction, "OffsetCommit")
    else:
        assert ended[0].error is not None
        assert (ended[0].error.kind, ended[0].error.code) == (reaction.kind, code)
    assert stage.raised == []


@pytest.mark.parametrize("code", FAILURES, ids=names)
@pytest.mark.parametrize("level", ["group", "partition"])
def test_offset_fetch_refused(stage: Stage, code: ErrorCode, level: str) -> None:
    stage.stable(ORDERS_0, leader="ben")
    stage.offsets_fetched(**{"group_code" if level == "group" else "code": int(code)})
    check_whereabouts(stage, OFFSET_FETCH.get(code, Reaction(Then.RAISE)), "OffsetFetch")


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
