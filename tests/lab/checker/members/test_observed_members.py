"""What the lab makes of a member's requests and notes together."""

import pytest

from regroup.coordinator.commands import OffsetCommit, RequestedOffset
from regroup.coordinator.group import Group
from regroup.lab.checker.members.member_invariants import COOPERATIVE_PROTOCOL
from regroup.lab.checker.members.observed_members import ObservedMembers
from regroup.lab.checker.members.records.outputs import OutputLedger
from regroup.lab.checker.members.records.positions import COMMITS_DO_NOT_GO_BACK
from regroup.lab.checker.violations import ViolationLog
from regroup.members.consumer.effects import ConsumerError, ConsumerErrorKind, JoinedGroup, PartitionsAssigned
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse
from tests.lab.checker.made_exchanges import checker_state, made_exchange

ORDERS_0 = TopicPartition("orders", 0)
JOIN = JoinGroupRequest(
    group_id="payments", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[], reason=""
)


@pytest.mark.parametrize(("is_zombie", "found"), [(False, [COMMITS_DO_NOT_GO_BACK]), (True, [])])
def test_the_commits_of_a_zombie_may_go_back(is_zombie: bool, found: list[str]) -> None:
    """One that became a zombie twice commits two sets of positions in turn."""
    state = checker_state()
    violations = ViolationLog(state)
    members = ObservedMembers(state, OutputLedger(), violations)
    members.add_member("ben", "payments")
    members.on_change("ben", JoinedGroup(1, "ben-1", is_leader=False, protocol_name="range"), 0)
    if is_zombie:
        members.on_note("ben", FaultBegan(parse_fault("zombie")))
    for offset in (29, 28):
        command = OffsetCommit(
            group_id="payments",
            at_ms=0,
            member_id="ben-1",
            generation_id=-1,
            offsets=(RequestedOffset(topic="orders", partition=0, offset=offset),),
        )
        members.on_commit(made_exchange(command, Group(group_id="payments")), command)
    assert [each.sentence for each in violations.found] == found


def test_a_new_process_may_join_though_the_former_one_had_to_fail() -> None:
    """A process that ends by itself is not reported as stopped: the next one begins without what it has got."""
    state = checker_state()
    violations = ViolationLog(state)
    members = ObservedMembers(state, OutputLedger(), violations)
    members.add_member("ben", "payments")
    members.on_response("ben", JOIN, JoinGroupResponse(generation_id=1, leader="a", member_id="ben-1", members=[]))
    beat = HeartbeatRequest(group_id="payments", generation_id=1, member_id="ben-1")
    members.on_response("ben", beat, HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    members.add_member("ben", "payments")
    members.on_request("ben", JOIN)
    assert violations.found == []


def test_a_member_that_has_failed_owns_nothing() -> None:
    """Another one may get its partitions before its session would have expired."""
    state = checker_state()
    violations = ViolationLog(state)
    members = ObservedMembers(state, OutputLedger(), violations)
    for name in ("anna", "ben"):
        members.add_member(name, "payments")
        members.on_change(name, JoinedGroup(1, f"{name}-1", is_leader=False, protocol_name=COOPERATIVE_PROTOCOL), 0)
    members.on_change("anna", PartitionsAssigned((ORDERS_0,)), 0)
    error = ConsumerError(ConsumerErrorKind.ASSIGNMENT, "it cannot go on", is_fatal=True)
    members.on_change("anna", error, 1)
    members.on_change("ben", PartitionsAssigned((ORDERS_0,)), 2)
    assert violations.found == []
