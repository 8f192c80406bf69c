"""A member between rebalances: heartbeats, the session and poll timeouts, and commits."""

from regroup.members.consumer.effects import (
    CommitCompleted,
    CommittedOffsetsFetched,
    ConsumerErrorKind,
    LeftGroup,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import Close, Commit, EnforceRebalance, Poll, PollReturned, RecordsConsumed
from regroup.members.consumer.state import MemberState
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import LeaveGroupRequest
from tests.members.harness import MemberHarness

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_heartbeats_go_on_while_the_application_processes_records(member: MemberHarness) -> None:
    member.reach_stable(ORDERS_0)
    member.complete_offset_fetch()
    member.receive(PollReturned())
    heartbeats = 0
    for _ in range(20):
        member.pass_time(1_000)
        while "Heartbeat" in member.open_request_names():
            heartbeats += 1
            member.complete_heartbeat()
    assert heartbeats == 6


def test_no_heartbeat_is_sent_while_the_member_waits_to_join(member: MemberHarness) -> None:
    member.reach_stable(ORDERS_0)
    member.receive(EnforceRebalance())
    member.pass_time(20_000)
    assert "Heartbeat" not in member.open_request_names()


def test_a_session_without_a_heartbeat_response_ends_with_find_coordinator() -> None:
    member = MemberHarness(session_timeout_ms=10_000).reach_stable(ORDERS_0)
    member.complete_offset_fetch()
    member.pass_time(9_999)
    assert "FindCoordinator" not in member.open_request_names()
    member.pass_time(1)
    assert member.open_request_names() == ["FindCoordinator"]
    assert member.consumer.assigned_partitions == (ORDERS_0,)


def test_a_coordinator_that_is_found_again_has_a_whole_session_to_answer() -> None:
    member = MemberHarness(session_timeout_ms=10_000).reach_stable(ORDERS_0)
    member.complete_offset_fetch()
    member.pass_time(3_000)
    member.complete_heartbeat(ErrorCode.NOT_COORDINATOR)
    member.pass_time(6_900)
    member.find_coordinator()
    member.pass_time(9_999)
    assert member.open_request_names() == ["Heartbeat"]
    member.pass_time(1)
    assert member.open_request_names() == ["FindCoordinator"]


def test_a_member_that_exceeds_max_poll_interval_leaves_and_loses_its_partitions(
    member: MemberHarness,
) -> None:
    member.reach_stable(ORDERS_0)
    member.complete_offset_fetch()
    member.receive(PollReturned())
    for _ in range(300):
        member.pass_time(1_000)
        while "Heartbeat" in member.open_request_names():
            member.complete_heartbeat()
    assert member.changes_of(LeftGroup) == [LeftGroup("consumer poll timeout has expired.")]
    assert isinstance(member.take_request(LeaveGroupRequest).message, LeaveGroupRequest)
    assert member.consumer.state is MemberState.UNJOINED
    assert not member.changes_of(PartitionsLost)
    member.receive(Poll())
    assert member.changes_of(PartitionsLost) == [PartitionsLost((ORDERS_0,))]
    assert member.complete_join(2).member_id == ""


def test_a_member_that_exceeds_max_poll_interval_without_a_coordinator_finds_it_before_it_leaves() -> None:
    member = MemberHarness(max_poll_interval_ms=20_000).reach_stable(ORDERS_0)
    member.complete_offset_fetch()
    member.receive(PollReturned())
    member.pass_time(18_000)
    member.complete_heartbeat(ErrorCode.NOT_COORDINATOR)
    member.pass_time(5_000)
    assert member.open_request_names() == ["FindCoordinator"]
    assert member.consumer.state is MemberState.STABLE
    member.find_coordinator()
    assert member.open_request_names() == ["LeaveGroup"]
    assert member.changes_of(LeftGroup) == [LeftGroup("consumer poll timeout has expired.")]


def test_a_member_that_is_polled_again_before_it_has_found_its_coordinator_does_not_leave() -> None:
    member = MemberHarness(max_poll_interval_ms=20_000).reach_stable(ORDERS_0)
    member.complete_offset_fetch()
    member.receive(PollReturned())
    member.pass_time(18_000)
    member.complete_heartbeat(ErrorCode.NOT_COORDINATOR)
    member.pass_time(5_000)
    member.receive(Poll())
    member.find_coordinator()
    assert member.open_request_names() == ["Heartbeat"]
    assert not member.changes_of(LeftGroup)


def test_a_session_that_ends_together_with_the_poll_timeout_only_looks_for_the_coordinator() -> None:
    member = MemberHarness(max_poll_interval_ms=10_000, session_timeout_ms=10_000).reach_stable(ORDERS_0)
    member.complete_offset_fetch()
    member.receive(PollReturned())
    member.pass_time(10_000)
    assert member.open_request_names() == ["FindCoordinator"]
    assert not member.changes_of(LeftGroup)


def test_a_member_inside_poll_never_exceeds_max_poll_interval(member: MemberHarness) -> None:
    member.reach_stable(ORDERS_0)
    member.complete_offset_fetch()
    for _ in range(400):
        member.pass_time(1_000)
        while "Heartbeat" in member.open_request_names():
            member.complete_heartbeat()
    assert not member.changes_of(LeftGroup)


def test_new_partitions_start_at_their_committed_offset_or_without_a_position(member: MemberHarness) -> None:
    member.reach_stable(ORDERS_0)
    member.complete_offset_fetch(41)
    assert member.changes_of(CommittedOffsetsFetched) == [CommittedOffsetsFetched({ORDERS_0: 41})]
    assert member.consumer.positions == {ORDERS_0: 41}

    member.receive(EnforceRebalance())
    member.complete_join(2, leader="ben")
    member.complete_sync(ORDERS_0, ORDERS_1)
    request = member.complete_offset_fetch(-1)
    assert request.groups[0].topics is not None
    assert request.groups[0].topics[0].partition_indexes == [1]
    assert member.changes_of(CommittedOffsetsFetched)[-1] == CommittedOffsetsFetched({ORDERS_1: None})


def test_auto_commits_are_made_inside_poll_only() -> None:
    member = MemberHarness(enable_auto_commit=True).reach_stable(ORDERS_0)
    member.complete_offset_fetch(41)
    member.receive(RecordsConsumed({ORDERS_0: 50, ORDERS_1: 3}))
    member.receive(PollReturned())
    member.pass_time(6_000)
    assert "OffsetCommit" not in member.open_request_names()
    member.receive(Poll())
    sent = member.complete_commit()
    assert [(each.partition_index, each.committed_offset) for each in sent.topics[0].partitions] == [(0, 50)]
    assert member.changes_of(CommitCompleted) == [CommitCompleted({ORDERS_0: 50}, None, is_auto_commit=True)]


def test_a_member_commits_before_its_partitions_are_revoked() -> None:
    member = MemberHarness(enable_auto_commit=True, partition_assignment_strategy=("range",))
    member.reach_stable(ORDERS_0, protocol="range")
    member.complete_offset_fetch(41)
    member.receive(EnforceRebalance())
    assert member.open_request_names() == ["OffsetCommit"]
    member.complete_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not member.changes_of(PartitionsRevoked)
    member.pass_time(100)
    member.complete_commit()
    assert member.changes_of(PartitionsRevoked) == [PartitionsRevoked((ORDERS_0,))]
    assert member.open_request_names() == ["JoinGroup"]


def test_closing_commits_first() -> None:
    member = MemberHarness(enable_auto_commit=True).reach_stable(ORDERS_0)
    member.complete_offset_fetch(41)
    member.receive(Close())
    assert member.open_request_names() == ["OffsetCommit"]
    member.complete_commit()
    assert member.open_request_names() == ["LeaveGroup"]


def test_closing_ends_in_time_without_responses() -> None:
    member = MemberHarness(enable_auto_commit=True).reach_stable(ORDERS_0)
    member.complete_offset_fetch(41)
    member.receive(Close(timeout_ms=5_000))
    member.pass_time(5_000)
    assert member.consumer.is_closed
    assert member.consumer.assigned_partitions == ()


def test_a_consumer_that_closes_cannot_be_polled() -> None:
    """Otherwise its next auto commit would always be due, and never be made."""
    member = MemberHarness(enable_auto_commit=True).reach_stable(ORDERS_0)
    member.receive(RecordsConsumed({ORDERS_0: 50}))
    member.receive(Close(timeout_ms=60_000))
    member.receive(Poll())
    assert not member.consumer.is_polling
    member.pass_time(20_000)
    assert member.open_request_names().count("OffsetCommit") == 1


def test_a_commit_during_a_rebalance_fails_without_a_request(member: MemberHarness) -> None:
    member.reach_stable(ORDERS_0)
    member.complete_offset_fetch(41)
    member.receive(EnforceRebalance())
    member.receive(Commit())
    assert "OffsetCommit" not in member.open_request_names()
    error = member.changes_of(CommitCompleted)[0].error
    assert error is not None
    assert error.kind is ConsumerErrorKind.REBALANCE_IN_PROGRESS


def test_a_sync_commit_fails_after_default_api_timeout_ms(member: MemberHarness) -> None:
    member.reach_stable(ORDERS_0)
    member.complete_offset_fetch(41)
    member.receive(Commit(is_sync=True))
    for _ in range(700):
        if "OffsetCommit" not in member.open_request_names():
            member.pass_time(100)
        else:
            member.complete_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        while "Heartbeat" in member.open_request_names():
            member.complete_heartbeat()
    error = member.changes_of(CommitCompleted)[0].error
    assert error is not None
    assert error.kind is ConsumerErrorKind.RETRIABLE_COMMIT_FAILED
    assert len(member.changes_of(CommitCompleted)) == 1


def test_a_consumer_that_has_not_subscribed_commits_without_a_membership(member: MemberHarness) -> None:
    member.receive(Commit({ORDERS_0: 5}))
    member.find_coordinator()
    assert member.complete_commit().generation_id_or_member_epoch == -1
    assert member.changes_of(CommitCompleted)[0].error is None
