"""Faults as text, and the SyncGroup of a leader with a fault."""

import pytest

from regroup.members.faults import (
    FaultTrigger,
    MemberFault,
    MemberFaultKind,
    MemberMilestone,
    assign_one_partition_twice,
    drop_last_assignment,
    parse_fault,
)
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, decode_assignment, encode_assignment
from regroup.protocol.messages.group import HeartbeatRequest, SyncGroupRequest, SyncGroupRequestAssignment

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("crash", MemberFault(MemberFaultKind.CRASH)),
        ("pause:20s", MemberFault(MemberFaultKind.PAUSE, 20_000)),
        ("pause:20s@30s", MemberFault(MemberFaultKind.PAUSE, 20_000, FaultTrigger(delay_ms=30_000))),
        ("leave@after-elected", MemberFault(MemberFaultKind.LEAVE, None, FaultTrigger(MemberMilestone.ELECTED))),
        (
            "slow-join:500ms@after-assigned+5s",
            MemberFault(MemberFaultKind.SLOW_JOIN, 500, FaultTrigger(MemberMilestone.ASSIGNED, 5_000)),
        ),
        ("restart-as-stranger:1m", MemberFault(MemberFaultKind.RESTART_AS_STRANGER, 60_000)),
        ("never-sync", MemberFault(MemberFaultKind.NEVER_SYNC)),
    ],
)
def test_a_fault_is_parsed_and_formatted(text: str, fault: MemberFault) -> None:
    assert parse_fault(text) == fault
    assert str(fault) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sleep", "unknown fault 'sleep'; use one of: crash, pause"),
        ("pause", "pause needs a duration above 0, for example pause:20s"),
        ("pause:0s", "pause needs a duration above 0"),
        ("pause:20", "invalid duration: '20'; write for example 500ms, 20s or 5m"),
        ("crash:20s", "crash takes no duration; its trigger follows @, for example crash@20s"),
        ("crash@noon", "invalid duration: 'noon'"),
        ("crash@after-lunch", "unknown trigger 'after-lunch'; use a duration or one of: after-started, after-joined"),
        ("crash@after-elected+", "invalid duration: ''"),
        ("", "unknown fault ''"),
    ],
)
def test_an_invalid_fault_is_named_with_what_is_possible(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".+") as raised:
        parse_fault(text)
    assert message in str(raised.value)


def test_a_lasting_fault_starts_at_once_by_default_and_any_other_after_ten_seconds() -> None:
    assert parse_fault("crash").effective_trigger == FaultTrigger(delay_ms=10_000)
    assert parse_fault("slow-sync:1s").effective_trigger == FaultTrigger()


def assignment_of(member_id: str, *partitions: TopicPartition) -> SyncGroupRequestAssignment:
    return SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(Assignment(3, partitions)))


def sync_group(*assignments: SyncGroupRequestAssignment) -> SyncGroupRequest:
    return SyncGroupRequest(group_id="payments", generation_id=1, member_id="anna", assignments=list(assignments))


def test_a_leader_drops_the_assignment_of_its_last_member() -> None:
    of_anna, of_ben = assignment_of("anna", ORDERS_0), assignment_of("ben", ORDERS_1)
    assert drop_last_assignment(sync_group(of_anna, of_ben)) == sync_group(of_anna)
    assert drop_last_assignment(sync_group()) == sync_group()


def test_a_leader_assigns_one_partition_to_two_members() -> None:
    sent = assign_one_partition_twice(sync_group(assignment_of("anna", ORDERS_0), assignment_of("ben", ORDERS_1)))
    assert isinstance(sent, SyncGroupRequest)
    assigned = [decode_assignment(each.assignment).partitions for each in sent.assignments]
    assert assigned == [(ORDERS_0,), (ORDERS_1, ORDERS_0)]


@pytest.mark.parametrize(
    ("owners", "doubled"),
    [(("anna", "ben", "carla"), "ben"), (("ben", "carla"), "carla"), (("carla",), "anna")],
)
def test_the_first_partition_is_given_to_the_member_after_its_owner_as_well(
    owners: tuple[str, ...], doubled: str
) -> None:
    members = {name: (TopicPartition("orders", number),) for number, name in enumerate(("anna", "ben", "carla"))}
    given = {name: partitions if name in owners else () for name, partitions in members.items()}
    sent = assign_one_partition_twice(sync_group(*(assignment_of(name, *each) for name, each in given.items())))
    assert isinstance(sent, SyncGroupRequest)
    found = {each.member_id: decode_assignment(each.assignment).partitions for each in sent.assignments}
    assert found == given | {doubled: (*given[doubled], *members[owners[0]])}


def test_a_leader_alone_assigns_no_partition_twice() -> None:
    alone = sync_group(assignment_of("anna", ORDERS_0))
    assert assign_one_partition_twice(alone) is alone


def test_other_requests_are_not_changed() -> None:
    heartbeat = HeartbeatRequest(group_id="payments", generation_id=1, member_id="anna")
    assert drop_last_assignment(heartbeat) is heartbeat
    assert assign_one_partition_twice(heartbeat) is heartbeat
