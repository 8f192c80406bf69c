"""A member that leaves its group: it is closed, or its application unsubscribes and perhaps subscribes again."""

from typing import Any

from regroup.assignors.interface import ClusterMetadata
from regroup.members.consumer.effects import (
    CommitCompleted,
    ConsumerClosed,
    LeftGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import (
    Close,
    Commit,
    EnforceRebalance,
    MetadataUpdated,
    Poll,
    PollReturned,
    Subscribe,
    TimePassed,
    Unsubscribe,
)
from regroup.members.consumer.state import MemberState
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.members.harness import MemberHarness, orders


def test_a_dynamic_member_leaves_when_it_is_closed(member: MemberHarness) -> None:
    member.reach_stable(*orders(0))
    member.receive(Close())
    assert member.changes[-2:] == [PartitionsRevoked(orders(0)), LeftGroup("the consumer is being closed")]
    left = member.respond(LeaveGroupRequest, LeaveGroupResponse())
    assert [each.member_id for each in left.members] == ["anna"]
    # Other open requests are not waited for once the time is up.
    member.pass_time(30_000)
    assert member.changes[-1] == ConsumerClosed()
    assert member.receive(Poll()).requests == ()


def test_a_member_that_has_no_member_id_yet_closes_without_leave_group(member: MemberHarness) -> None:
    member.subscribe().find_coordinator()
    assert member.open_request_names() == ["JoinGroup"]
    member.receive(Close())
    assert "LeaveGroup" not in member.open_request_names()
    assert not member.changes_of(LeftGroup)


def test_a_member_that_has_lost_its_generation_closes_without_leave_group(member: MemberHarness) -> None:
    member.reach_stable(*orders(0), leader="ben")
    member.receive(PollReturned())
    member.pass_time(3_000)
    member.complete_heartbeat(ErrorCode.ILLEGAL_GENERATION)
    assert member.consumer.generation.member_id == "anna"
    member.receive(Close())
    assert "LeaveGroup" not in member.open_request_names()


def test_a_static_member_closes_without_leave_group_unless_leaves_group_is_set() -> None:
    default = MemberHarness(group_instance_id="anna-1").reach_stable(*orders(0))
    default.receive(Close())
    assert "LeaveGroup" not in default.open_request_names()
    assert not default.changes_of(LeftGroup)

    leaving = MemberHarness(group_instance_id="anna-1").reach_stable(*orders(0))
    leaving.receive(Close(leaves_group=True))
    assert leaving.respond(LeaveGroupRequest, LeaveGroupResponse()).members[0].group_instance_id == "anna-1"


def test_unsubscribing_revokes_all_partitions_and_leaves(member: MemberHarness) -> None:
    member.reach_stable(*orders(0))
    member.receive(Unsubscribe())
    assert member.changes_of(PartitionsRevoked) == [PartitionsRevoked(orders(0))]
    assert "LeaveGroup" in member.open_request_names()
    assert not member.consumer.rejoin_needed_or_pending


def test_closing_in_the_middle_of_a_rebalance_loses_the_partitions(member: MemberHarness) -> None:
    member.reach_stable(*orders(0))
    member.receive(EnforceRebalance())
    member.receive(Close())
    assert member.changes_of(PartitionsLost) == [PartitionsLost(orders(0))]


def subscribe_again(member: MemberHarness) -> None:
    """Let the application unsubscribe, and subscribe and poll again at once."""
    member.receive(Unsubscribe())
    member.receive(Subscribe(("orders",)))
    member.receive(Poll())


def test_a_member_that_subscribes_again_waits_for_the_response_to_its_former_join_group(member: MemberHarness) -> None:
    member.reach_stable(*orders(0))
    member.receive(EnforceRebalance())
    subscribe_again(member)
    assert member.open_request_names().count("JoinGroup") == 1
    former = member.respond(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=""))
    assert (former.member_id, member.take_request(JoinGroupRequest).message.member_id) == ("anna", "")


def test_a_generation_that_the_member_left_while_it_was_joining_is_not_synced(member: MemberHarness) -> None:
    member.reach_stable(*orders(0))
    member.receive(EnforceRebalance())
    subscribe_again(member)
    member.complete_join(2)
    assert not {"SyncGroup", "JoinGroup"} & set(member.open_request_names())
    assert member.consumer.state is MemberState.UNJOINED
    member.pass_time(1_000)
    assert member.take_request(JoinGroupRequest).message.member_id == ""


def test_an_assignment_of_a_generation_that_the_member_left_is_not_applied(member: MemberHarness) -> None:
    member.subscribe().find_coordinator()
    member.complete_join()
    subscribe_again(member)
    member.respond(SyncGroupRequest, SyncGroupResponse(error_code=ErrorCode.NONE, assignment=b"anything"))
    assert member.consumer.assigned_partitions == ()
    assert member.take_request(JoinGroupRequest).message.member_id == ""


def test_a_former_join_group_that_is_refused_by_the_wrong_coordinator_makes_the_member_look_it_up(
    member: MemberHarness,
) -> None:
    member.reach_stable(*orders(0))
    member.receive(EnforceRebalance())
    member.receive(Unsubscribe())
    member.respond(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, member_id=""))
    member.receive(Subscribe(("orders",)))
    member.receive(Poll())
    member.pass_time(1_000)
    assert "FindCoordinator" in member.open_request_names()
    assert "JoinGroup" not in member.open_request_names()


def committing(**settings: Any) -> MemberHarness:
    """An eager member that has begun to rejoin, and commits before it revokes."""
    member = MemberHarness(partition_assignment_strategy=("range",), enable_auto_commit=True, **settings)
    member.reach_stable(*orders(0), protocol="range")
    member.complete_offset_fetch(7)
    member.receive(EnforceRebalance())
    assert member.open_request_names() == ["OffsetCommit"]
    return member


def test_a_member_that_unsubscribes_while_it_commits_joins_when_the_commit_has_failed() -> None:
    member = committing()
    subscribe_again(member)
    member.complete_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert "JoinGroup" in member.open_request_names()


def test_a_commit_that_waits_for_its_retry_when_the_application_unsubscribes_is_not_repeated() -> None:
    member = committing()
    member.complete_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    member.receive(Unsubscribe())
    completed = member.changes_of(CommitCompleted)[-1]
    assert completed.error is not None
    assert "unsubscribed" in str(completed.error)
    member.pass_time(5_000)
    assert "OffsetCommit" not in member.open_request_names()
    member.receive(Subscribe(("orders",)))
    member.receive(Poll())
    assert "JoinGroup" in member.open_request_names()


def test_a_member_that_is_removed_while_its_commit_waits_for_a_retry_joins_at_the_retry() -> None:
    member = committing()
    member.pass_time(3_000)
    member.complete_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    member.complete_heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert "JoinGroup" not in member.open_request_names()
    assert member.last_effects.deadline_ms is not None
    member.now_ms = member.last_effects.deadline_ms
    member.receive(TimePassed())
    assert "JoinGroup" in member.open_request_names()


def test_a_consumer_that_has_unsubscribed_commits_without_a_member_id_and_an_instance_id() -> None:
    member = MemberHarness(group_instance_id="anna-1").subscribe()
    member.find_coordinator()
    member.receive(Unsubscribe())
    member.respond(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="anna"))
    member.receive(Commit(dict.fromkeys(orders(0), 5)))
    sent = member.complete_commit()
    assert (sent.member_id, sent.group_instance_id, sent.generation_id_or_member_epoch) == ("", None, -1)
    member.receive(Subscribe(("orders",)))
    member.receive(Poll())
    assert member.take_request(JoinGroupRequest).message.member_id == "anna"


def test_a_fatal_response_to_a_former_join_group_is_thrown_after_the_next_subscription(member: MemberHarness) -> None:
    member.subscribe()
    member.find_coordinator()
    member.receive(Unsubscribe())
    refusal = JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id="")
    member.respond(JoinGroupRequest, refusal)
    member.receive(Poll())
    assert not member.poll_errors
    member.receive(Subscribe(("orders",)))
    member.receive(Poll())
    assert [error.code for error in member.poll_errors] == [ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_a_leader_that_waits_for_metadata_joins_again_when_it_has_left_and_subscribed(member: MemberHarness) -> None:
    member.lead_without_metadata()
    subscribe_again(member)
    member.receive(MetadataUpdated(ClusterMetadata({"clicks": 1, "orders": 2})))
    assert "SyncGroup" not in member.open_request_names()
    assert "JoinGroup" in member.open_request_names()


def test_an_assignment_that_came_outside_poll_is_not_applied_when_the_member_has_left(member: MemberHarness) -> None:
    member.subscribe().find_coordinator()
    member.complete_join()
    member.receive(PollReturned())
    member.complete_sync(*orders(0))
    subscribe_again(member)
    assert not member.changes_of(PartitionsAssigned)
    assert "JoinGroup" in member.open_request_names()
