"""A member that leaves its group: it is closed, or its application unsubscribes and perhaps subscribes again."""

from regroup.members.consumer.effects import ConsumerClosed, LeftGroup, PartitionsLost, PartitionsRevoked
from regroup.members.consumer.inputs import Close, EnforceRebalance, Poll, PollReturned, Subscribe, Unsubscribe
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
