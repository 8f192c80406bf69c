"""What a member does about every error code of Kafka in every response of the group APIs."""

import re
from pathlib import Path

import pytest

from regroup.members.consumer.effects import CommitCompleted, ConsumerErrorKind, PartitionsLost
from regroup.members.consumer.inputs import Commit, EnforceRebalance, Poll
from regroup.members.consumer.state import MemberState
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.members.harness import MemberHarness

ORDERS_0 = TopicPartition("orders", 0)

JAVA = (Path(__file__).parent / "java_consumer.txt").read_text(encoding="utf-8")
ROWS = {
    (api, code): what for api, code, what in re.findall(r"^(\w[\w-]+) {2,}(\w[\w ]*?) {2,}(.+)$", JAVA, re.MULTILINE)
}
RETRIABLE = frozenset(JAVA.partition("RetriableException):")[2].split())
NAMED = {code for _, code in ROWS} | {
    "NETWORK_EXCEPTION",
    "KAFKA_STORAGE_ERROR",
    "OFFSET_OUT_OF_RANGE",
    "GROUP_MAX_SIZE_REACHED",
}
"""Codes that have a row of their own, and a few of those that have none, two of them retriable."""
FAILURES = [
    code if code.name in NAMED else pytest.param(code, marks=pytest.mark.slow)
    for code in ErrorCode
    if code != ErrorCode.NONE
]
THROWN = {
    "CommitFailedException": ConsumerErrorKind.COMMIT_FAILED,
    "FencedInstanceIdException": ConsumerErrorKind.FENCED,
    "RebalanceInProgressException": ConsumerErrorKind.REBALANCE_IN_PROGRESS,
}


def java_action(api: str, code: ErrorCode) -> str:
    """What the Java client does about this code in this response."""
    candidates = [code.name, *(["any retriable code"] if code.name in RETRIABLE else []), "any other code"]
    return next(ROWS[api, each] for each in candidates if (api, each) in ROWS)


def code_name(code: ErrorCode) -> str:
    return code.name


def check_generation(member: MemberHarness, does: str) -> None:
    generation = member.consumer.generation
    number = -1 if "loses" in does else 1
    member_id = "" if "loses member id" in does else "anna"
    assert (generation.generation_id, generation.member_id) == (number, member_id)


def check_recovery(member: MemberHarness, does: str, request: str) -> None:
    """The member finds the coordinator, sends the request again at once or after a backoff, or raises an error."""
    assert len(member.poll_errors) == ("throws" in does)
    if "throws" in does:
        return
    if "looks up" in does:
        assert member.open_request_names() == ["FindCoordinator"]
        member.find_coordinator()
    if "pauses" in does:
        assert request not in member.open_request_names()
        member.pass_time(100)
    assert request in member.open_request_names()


def test_every_row_of_the_table_is_about_a_code_that_exists() -> None:
    codes = {code.name for code in ErrorCode} | {"any retriable code", "any other code"}
    assert {code for _, code in ROWS} <= codes
    assert len(ROWS) == 38
    assert {code.name for code in ErrorCode if code.retriable} == RETRIABLE


@pytest.mark.parametrize("code", FAILURES, ids=code_name)
def test_join_group_refused(member: MemberHarness, code: ErrorCode) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.open_requests.clear()
    member.receive(EnforceRebalance())
    member.respond(JoinGroupRequest, JoinGroupResponse(error_code=code, member_id="given"))
    does = java_action("JoinGroup", code)
    if "takes the given id" in does:
        assert (member.consumer.generation.generation_id, member.consumer.generation.member_id) == (-1, "given")
        assert member.open_request_names() == ["JoinGroup"]
        return
    check_generation(member, does)
    check_recovery(member, does, "JoinGroup")
    assert bool(member.changes_of(PartitionsLost)) is ("loses" in does)


@pytest.mark.parametrize("code", FAILURES, ids=code_name)
def test_sync_group_refused(member: MemberHarness, code: ErrorCode) -> None:
    member.subscribe()
    member.find_coordinator()
    member.complete_join()
    member.respond(SyncGroupRequest, SyncGroupResponse(error_code=code))
    does = java_action("SyncGroup", code)
    check_generation(member, does)
    check_recovery(member, does, "JoinGroup")
    if "throws" in does:
        member.receive(Poll())
        assert "JoinGroup" in member.open_request_names()


def test_an_error_names_the_request_that_was_refused(member: MemberHarness) -> None:
    member.subscribe()
    member.find_coordinator()
    member.respond(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=""))
    member.receive(Poll())
    member.complete_join()
    member.respond(SyncGroupRequest, SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert [str(each) for each in member.poll_errors] == [
        "GROUP_MAX_SIZE_REACHED: JOIN_GROUP was refused",
        "GROUP_AUTHORIZATION_FAILED: SYNC_GROUP was refused",
    ]


@pytest.mark.parametrize("code", FAILURES, ids=code_name)
def test_heartbeat_refused(member: MemberHarness, code: ErrorCode) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.open_requests.clear()
    member.pass_time(3_000)
    member.complete_heartbeat(code)
    does = java_action("Heartbeat", code)
    check_generation(member, does)
    assert bool(member.changes_of(PartitionsLost)) is ("loses" in does and "throws" not in does)
    check_recovery(member, does, "JoinGroup" if "at once" in does else "Heartbeat")


FATALLY_FENCED = (ConsumerErrorKind.FENCED, True)


def test_a_fenced_heartbeat_ends_the_member_for_good(member: MemberHarness) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.open_requests.clear()
    member.pass_time(3_000)
    member.complete_heartbeat(ErrorCode.FENCED_INSTANCE_ID)
    assert [(each.kind, each.is_fatal) for each in member.poll_errors] == [FATALLY_FENCED]


@pytest.mark.parametrize("code", FAILURES, ids=code_name)
def test_find_coordinator_refused(member: MemberHarness, code: ErrorCode) -> None:
    member.subscribe()
    refusal = Coordinator(key="payments", node_id=-1, host="", port=-1, error_code=code)
    member.respond(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[refusal]))
    check_recovery(member, java_action("FindCoordinator", code), "FindCoordinator")


@pytest.mark.parametrize("wait", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("code", FAILURES, ids=code_name)
def test_offset_commit_refused(member: MemberHarness, code: ErrorCode, wait: bool) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.open_requests.clear()
    member.receive(Commit({ORDERS_0: 7}, is_sync=wait))
    member.complete_commit(code)
    does = java_action("OffsetCommit", code)
    ended = member.changes_of(CommitCompleted)
    check_generation(member, does)
    assert len(member.poll_errors) == (code == ErrorCode.FENCED_INSTANCE_ID and not wait)
    if wait and "pauses" in does:
        assert ended == []
        check_recovery(member, does, "OffsetCommit")
        return
    thrown = (
        ConsumerErrorKind.RETRIABLE_COMMIT_FAILED
        if "pauses" in does
        else THROWN.get(does.split()[-1], ConsumerErrorKind.GROUP)
    )
    assert ended[0].error is not None
    assert (ended[0].error.kind, ended[0].error.code) == (thrown, code)
    assert ("JoinGroup" in member.open_request_names()) is (code == ErrorCode.REBALANCE_IN_PROGRESS or "loses" in does)


@pytest.mark.parametrize("code", FAILURES, ids=code_name)
@pytest.mark.parametrize("level", ["group", "partition"])
def test_offset_fetch_refused(member: MemberHarness, code: ErrorCode, level: str) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.complete_offset_fetch(**{"group_code" if level == "group" else "code": int(code)})
    check_recovery(
        member, java_action("OffsetFetch" if level == "group" else "OffsetFetch-of-one-partition", code), "OffsetFetch"
    )


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION], ids=code_name)
def test_a_refused_heartbeat_of_an_older_generation_changes_nothing(member: MemberHarness, code: ErrorCode) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.pass_time(3_000)
    member.receive(EnforceRebalance())
    member.complete_join(2, leader="ben")
    member.complete_heartbeat(code)
    assert member.consumer.generation.generation_id == 2


@pytest.mark.parametrize("state", [MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE])
def test_rebalance_in_progress_changes_nothing_during_a_rebalance(member: MemberHarness, state: MemberState) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.pass_time(3_000)
    member.receive(EnforceRebalance())
    if state is MemberState.COMPLETING_REBALANCE:
        member.complete_join(2, leader="ben")
    assert member.consumer.state is state
    before = [name for name in member.open_request_names() if name != "Heartbeat"]
    member.complete_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert [name for name in member.open_request_names() if name != "Heartbeat"] == before


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID], ids=code_name
)
def test_a_late_refusal_of_a_commit_does_not_reset_the_next_generation(member: MemberHarness, code: ErrorCode) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.receive(Commit({ORDERS_0: 7}))
    member.receive(EnforceRebalance())
    # The member gets a new id meanwhile, which is not the one that it committed with.
    member.respond(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="new"))
    assert member.consumer.state is MemberState.PREPARING_REBALANCE
    member.complete_commit(code)
    error = member.changes_of(CommitCompleted)[0].error
    assert error is not None
    assert error.kind is ConsumerErrorKind.REBALANCE_IN_PROGRESS
    assert member.consumer.generation.member_id == "new"


@pytest.mark.parametrize("is_sync", [False, True])
def test_poll_throws_the_error_of_an_asynchronous_commit_that_is_fenced(member: MemberHarness, is_sync: bool) -> None:
    """The Java client keeps it in `asyncCommitFenced`, and each later poll() throws it."""
    member.reach_stable(ORDERS_0, leader="ben")
    member.receive(Commit({ORDERS_0: 7}, is_sync=is_sync))
    member.complete_commit(ErrorCode.FENCED_INSTANCE_ID)
    assert [(each.kind, each.is_fatal) for each in member.poll_errors] == ([] if is_sync else [FATALLY_FENCED])


def test_a_commit_that_is_fenced_after_its_generation_does_not_end_the_member(member: MemberHarness) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.receive(Commit({ORDERS_0: 7}))
    member.receive(EnforceRebalance())
    member.complete_join(2, leader="ben")
    member.complete_commit(ErrorCode.FENCED_INSTANCE_ID)
    error = member.changes_of(CommitCompleted)[0].error
    assert error is not None
    assert (error.kind, error.is_fatal) == (ConsumerErrorKind.COMMIT_FAILED, False)
    assert member.consumer.generation.generation_id == 2


def test_a_heartbeat_with_an_unknown_error_code_is_repeated(member: MemberHarness) -> None:
    member.reach_stable(ORDERS_0, leader="ben")
    member.open_requests.clear()
    member.pass_time(3_000)
    member.complete_heartbeat(9_999)
    assert member.consumer.state is MemberState.STABLE
    member.pass_time(3_000)
    assert "Heartbeat" in member.open_request_names()
