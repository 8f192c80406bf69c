"""A member that has left is gone, and so is a group that was deleted."""

from typing import Any

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ConsumerProfile
from regroup.coordinator.group import CommittedOffset, Group, GroupState
from regroup.lab.checker.responses.administration import (
    a_deleted_group_is_gone,
    a_group_with_members_is_not_deleted,
    members_that_have_left_are_gone,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.describe import DeletableGroupResult
from regroup.protocol.messages.group import LeaveGroupResponse, MemberResponse
from tests.coordinator.group_harness import GroupHarness
from tests.lab.checker.made_exchanges import checker_state, made_exchange

NAMED: dict[str, Any] = {"group_id": "payments", "at_ms": 0}


def after_leaving(leaving: c.LeavingMember, *, code: int = 0, stays: bool) -> str | None:
    """What is wrong if anna, a static member, is to leave, with this answer, and stays or does not."""
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    before = harness.group
    leaving = c.LeavingMember(leaving.member_id and anna.member_id, leaving.group_instance_id)
    harness.remove_members(leaving)
    answered = MemberResponse(member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=code)
    return members_that_have_left_are_gone(
        checker_state(),
        made_exchange(
            c.LeaveGroup(**NAMED, members=(leaving,)),
            before,
            before if stays else harness.group,
            LeaveGroupResponse(members=[answered]),
        ),
    )


@pytest.mark.parametrize(
    "leaving",
    [
        c.LeavingMember("its member id", "instance-anna"),
        c.LeavingMember("its member id"),
        c.LeavingMember("", "instance-anna"),
    ],
)
def test_a_member_whose_leaving_is_acknowledged_is_gone(leaving: c.LeavingMember) -> None:
    assert after_leaving(leaving, stays=False) is None
    found = after_leaving(leaving, stays=True)
    assert found is not None
    assert "was answered NONE, and anna" in found


def test_a_member_that_may_not_leave_stays() -> None:
    leaving = c.LeavingMember("its member id", "instance-ben")
    assert after_leaving(leaving, code=ErrorCode.FENCED_INSTANCE_ID, stays=True) is None


def test_a_member_id_that_was_given_out_is_gone_after_it_has_left() -> None:
    harness = GroupHarness()
    anna = harness.client("anna")
    anna.send_join()
    pending = harness.group
    [member_id] = pending.pending_join_members
    command = c.LeaveGroup(**NAMED, members=(c.LeavingMember(member_id),))
    response = LeaveGroupResponse(members=[MemberResponse(member_id=member_id)])
    stays = made_exchange(command, pending, pending, response)
    assert f"{member_id} was answered NONE" in (members_that_have_left_are_gone(checker_state(), stays) or "")


def test_a_group_whose_deletion_is_acknowledged_is_gone_with_its_offsets() -> None:
    offsets = {"orders": {0: CommittedOffset(7, 0)}}
    empty = Group(group_id="payments", state=GroupState.EMPTY, committed_offsets=offsets)
    command, deleted = c.DeleteGroup(**NAMED), DeletableGroupResult(group_id="payments")
    refused = DeletableGroupResult(group_id="payments", error_code=ErrorCode.NON_EMPTY_GROUP)

    def violation(after: Group, response: Any) -> str | None:
        return a_deleted_group_is_gone(checker_state(), made_exchange(command, empty, after, response))

    assert violation(Group(group_id="payments"), deleted) is None
    assert violation(empty, refused) is None
    assert violation(empty, deleted) == "group payments is Empty, with offsets of ['orders']"
    left = Group(group_id="payments", committed_offsets=offsets)
    assert violation(left, deleted) == "group payments is Dead, with offsets of ['orders']"


def test_a_group_of_the_consumer_protocol_is_deleted_only_without_members() -> None:
    anna = ConsumerMember(member_id="anna", profile=ConsumerProfile(), epoch=-2)
    with_anna = Group(group_id="payments", consumer=ConsumerGroup(members={"anna": anna}))

    def violation(before: Group, code: int) -> str | None:
        response = DeletableGroupResult(group_id="payments", error_code=code)
        exchange = made_exchange(c.DeleteGroup(**NAMED), before, Group(group_id="payments"), response)
        return a_group_with_members_is_not_deleted(checker_state(), exchange)

    assert violation(with_anna, ErrorCode.NONE) == "its deletion is answered with 0, and it has the members anna"
    assert violation(with_anna, ErrorCode.NON_EMPTY_GROUP) is None
    assert violation(with_anna, ErrorCode.UNKNOWN_SERVER_ERROR) is None
    assert violation(Group(group_id="payments", consumer=ConsumerGroup()), ErrorCode.NONE) is None
    assert violation(Group(group_id="payments"), ErrorCode.GROUP_ID_NOT_FOUND) is None
