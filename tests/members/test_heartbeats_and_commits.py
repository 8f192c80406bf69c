"""What goes on between rebalances: heartbeats, the session, the time between two polls, and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regroup.members.consumer.effects import (
    CommitEnded,
    ErrorKind,
    LeftGroup,
    PartitionsLost,
    PartitionsRevoked,
    PositionsFound,
)
from regroup.members.consumer.inputs import Close, Commit, Consumed, EnforceRebalance, Poll, PollReturned
from regroup.members.consumer.state import Phase
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import LeaveGroupRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.members.conftest import Stage

    StageWith = Callable[..., Stage]

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_heartbeats_go_on_while_the_application_works(stage: Stage) -> None:
    stage.stable(ORDERS_0)
    stage.offsets_fetched()
    stage.when(PollReturned())
    beats = 0
    for _ in range(20):
        stage.pass_time(1_000)
        while "Heartbeat" in stage.names():
            beats += 1
            stage.heartbeat_answered()
    assert beats == 6


def test_no_heartbeat_is_sent_while_the_member_waits_to_join(stage: Stage) -> None:
    stage.stable(ORDERS_0)
    stage.when(EnforceRebalance())
    stage.pass_time(20_000)
    assert "Heartbeat" not in stage.names()


def test_a_session_without_an_answer_ends_with_a_new_look_up(stage_with: StageWith) -> None:
    stage = stage_with(session_timeout_ms=10_000).stable(ORDERS_0)
    stage.offsets_fetched()
    stage.pass_time(9_999)
    assert "FindCoordinator" not in stage.names()
    stage.pass_time(1)
    assert stage.names() == ["FindCoordinator"]
    assert stage.consumer.assigned == (ORDERS_0,)


def test_a_member_that_polls_too_rarely_leaves_and_finds_out_at_its_next_poll(stage: Stage) -> None:
    stage.stable(ORDERS_0)
    stage.offsets_fetched()
    stage.when(PollReturned())
    for _ in range(300):
        stage.pass_time(1_000)
        while "Heartbeat" in stage.names():
            stage.heartbeat_answered()
    assert stage.all(LeftGroup) == [LeftGroup("consumer poll timeout has expired.")]
    assert isinstance(stage.take(LeaveGroupRequest).message, LeaveGroupRequest)
    assert stage.consumer.phase is Phase.UNJOINED
    assert not stage.all(PartitionsLost)
    stage.when(Poll())
    assert stage.all(PartitionsLost) == [PartitionsLost((ORDERS_0,))]
    assert stage.joined(2).member_id == ""


def test_a_member_inside_poll_never_polls_too_rarely(stage: Stage) -> None:
    stage.stable(ORDERS_0)
    stage.offsets_fetched()
    for _ in range(400):
        stage.pass_time(1_000)
        while "Heartbeat" in stage.names():
            stage.heartbeat_answered()
    assert not stage.all(LeftGroup)


def test_new_partitions_begin_where_the_group_committed_or_nowhere(stage: Stage) -> None:
    stage.stable(ORDERS_0)
    stage.offsets_fetched(41)
    assert stage.all(PositionsFound) == [PositionsFound({ORDERS_0: 41})]
    assert stage.consumer.positions == {ORDERS_0: 41}

    stage.when(EnforceRebalance())
    stage.joined(2, leader="ben")
    stage.synced(ORDERS_0, ORDERS_1)
    asked = stage.offsets_fetched(-1)
    assert asked.groups[0].topics is not None
    assert asked.groups[0].topics[0].partition_indexes == [1]
    assert stage.all(PositionsFound)[-1] == PositionsFound({ORDERS_1: None})


def test_positions_are_committed_by_the_clock_inside_poll_only(stage_with: StageWith) -> None:
    stage = stage_with(enable_auto_commit=True).stable(ORDERS_0)
    stage.offsets_fetched(41)
    stage.when(Consumed({ORDERS_0: 50, ORDERS_1: 3}))
    stage.when(PollReturned())
    stage.pass_time(6_000)
    assert "OffsetCommit" not in stage.names()
    stage.when(Poll())
    sent = stage.commit_answered()
    assert [(each.partition_index, each.committed_offset) for each in sent.topics[0].partitions] == [(0, 50)]
    assert stage.all(CommitEnded) == [CommitEnded({ORDERS_0: 50}, None, automatic=True)]


def test_a_member_commits_before_it_gives_up_its_partitions(stage_with: StageWith) -> None:
    stage = stage_with(enable_auto_commit=True, partition_assignment_strategy=("range",))
    stage.stable(ORDERS_0, protocol="range")
    stage.offsets_fetched(41)
    stage.when(EnforceRebalance())
    assert stage.names() == ["OffsetCommit"]
    stage.commit_answered(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not stage.all(PartitionsRevoked)
    stage.pass_time(100)
    stage.commit_answered()
    assert stage.all(PartitionsRevoked) == [PartitionsRevoked((ORDERS_0,))]
    assert stage.names() == ["JoinGroup"]


def test_closing_commits_first(stage_with: StageWith) -> None:
    stage = stage_with(enable_auto_commit=True).stable(ORDERS_0)
    stage.offsets_fetched(41)
    stage.when(Close())
    assert stage.names() == ["OffsetCommit"]
    stage.commit_answered()
    assert stage.names() == ["LeaveGroup"]


def test_closing_ends_in_time_even_if_nobody_answers(stage_with: StageWith) -> None:
    stage = stage_with(enable_auto_commit=True).stable(ORDERS_0)
    stage.offsets_fetched(41)
    stage.when(Close(timeout_ms=5_000))
    stage.pass_time(5_000)
    assert stage.consumer.is_closed
    assert stage.consumer.assigned == ()


def test_a_consumer_that_closes_is_not_polled_back_to_life(stage_with: StageWith) -> None:
    """Its next commit by the clock would be due for ever, and never made."""
    stage = stage_with(enable_auto_commit=True).stable(ORDERS_0)
    stage.when(Consumed({ORDERS_0: 50}))
    stage.when(Close(timeout_ms=60_000))
    stage.when(Poll())
    assert not stage.consumer.is_polling
    stage.pass_time(20_000)
    assert stage.names().count("OffsetCommit") == 1


def test_a_commit_during_a_rebalance_is_refused_without_a_request(stage: Stage) -> None:
    stage.stable(ORDERS_0)
    stage.offsets_fetched(41)
    stage.when(EnforceRebalance())
    stage.when(Commit())
    assert "OffsetCommit" not in stage.names()
    error = stage.all(CommitEnded)[0].error
    assert error is not None
    assert error.kind is ErrorKind.REBALANCE_IN_PROGRESS


def test_a_synchronous_commit_is_given_up_after_default_api_timeout_ms(stage: Stage) -> None:
    stage.stable(ORDERS_0)
    stage.offsets_fetched(41)
    stage.when(Commit(wait=True))
    for _ in range(700):
        if "OffsetCommit" not in stage.names():
            stage.pass_time(100)
        else:
            stage.commit_answered(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        while "Heartbeat" in stage.names():
            stage.heartbeat_answered()
    error = stage.all(CommitEnded)[0].error
    assert error is not None
    assert error.kind is ErrorKind.RETRIABLE_COMMIT_FAILED
    assert len(stage.all(CommitEnded)) == 1
