"""What a member does is compared with its plan: its lasting faults, how it joins, and how it reads records."""

from typing import Any

import pytest
from msgspec.structs import replace

from regroup.assignors.registry import assignor_named
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.planned_members import (
    DOUBLES_ONE_PARTITION,
    FAULTS_ARE_REPORTED,
    JOINS_AS_CONFIGURED,
    LASTING,
    LEAVES_POLL_FOR_AN_ASSIGNMENT,
    READS_AS_CONFIGURED,
    SYNCS_LATE,
    PlannedMembers,
)
from regroup.members.consumer.consumer_protocol import ConsumerProtocolMachine
from regroup.members.consumer.requests import join_group, join_group_protocols
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration
from regroup.members.faults import MemberFaultKind, parse_fault
from regroup.members.runtime.notes import FaultBegan
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, encode_assignment
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.protocol.messages.records import FetchRequest, ListOffsetsRequest

IDS: dict[str, Any] = {"group_id": "payments", "member_id": "anna-1", "generation_id": 3}
HEARTBEAT, SYNC = HeartbeatRequest(**IDS), SyncGroupRequest(**IDS)
JOIN = JoinGroupRequest(group_id="payments", session_timeout_ms=1, protocol_type="consumer", protocols=[])
JOINED = JoinGroupResponse(generation_id=3, protocol_name="range", leader="", member_id="anna-1", members=[])
SETTINGS = ConsumerSettings(
    group_id="payments",
    group_instance_id="anna-1",
    partition_assignment_strategy=("range", "sticky"),
    group_remote_assignor="range",
    session_timeout_ms=10_000,
    max_poll_interval_ms=20_000,
)
CONSUMER_HEARTBEAT = ConsumerGroupHeartbeatRequest(group_id="payments", member_id="anna-1", member_epoch=1)


class Anna:
    """Anna with these faults, and the clock of the run."""

    def __init__(
        self,
        *faults: str,
        reads_committed: bool = False,
        reports: bool = True,
        settings: ConsumerSettings | None = None,
    ) -> None:
        self.now_ms = 1_000
        self.planned = PlannedMembers(lambda: self.now_ms)
        begun = [parse_fault(each) for each in faults]
        self.planned.add_member("anna", begun, reads_committed=reads_committed, settings=settings)
        for each in faults if reports else ():
            self.planned.on_note("anna", FaultBegan(parse_fault(each)))

    def send(self, message: Message) -> str | None:
        return sentence(self.planned.on_request("anna", message))

    def get(self, message: Message, response: Any) -> None:
        self.planned.on_response("anna", message, response)

    def send_outside_poll(self, outside_poll_ms: int) -> str | None:
        return sentence(self.planned.on_request_outside_poll("anna", CONSUMER_HEARTBEAT, outside_poll_ms))

    def beat(self, *, assigned: bool) -> None:
        assignment = ConsumerGroupAssignment(topic_partitions=[]) if assigned else None
        response = ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=1_000, assignment=assignment)
        self.get(CONSUMER_HEARTBEAT, response)


def sentence(found: MemberViolation | None) -> str | None:
    return found.sentence if found else None


def test_the_faults_that_last_are_those_that_members_keep() -> None:
    assert {each for each in MemberFaultKind if each.is_lasting} == LASTING


def test_faults_that_are_not_reported_are_named_in_alphabetical_order() -> None:
    anna = Anna("slow-sync:1s", "slow-revoke:1s", "never-sync", "assignor-fails", reports=False)
    found = [anna.planned.on_request("anna", HEARTBEAT) for _ in range(5)]
    assert [each and each.detail.rpartition(" ")[2] for each in found] == [
        "assignor-fails",
        "never-sync",
        "slow-revoke",
        "slow-sync",
        None,
    ]


def test_a_fault_that_begins_at_the_start_and_is_not_reported_is_found() -> None:
    assert Anna("slow-sync:5s", reports=False).send(JOIN) == FAULTS_ARE_REPORTED
    assert Anna("slow-sync:5s").send(JOIN) is None


@pytest.mark.parametrize("fault", ["never-sync@after-assigned", "never-sync@10s", "pause:10s"])
def test_faults_that_begin_later_need_not_be_reported_at_the_start(fault: str) -> None:
    assert Anna(fault, reports=False).send(JOIN) is None


@pytest.mark.parametrize(("after_ms", "found"), [(4_000, SYNCS_LATE), (5_000, None)])
def test_a_member_that_is_slow_to_sync_waits_for_as_long_as_its_fault_says(after_ms: int, found: str | None) -> None:
    anna = Anna("slow-sync:5s")
    anna.get(JOIN, JOINED)
    anna.now_ms += after_ms
    assert anna.send(SYNC) == found


def test_the_time_counts_from_the_generation_of_the_request() -> None:
    anna = Anna("slow-sync:5s")
    anna.get(JOIN, JOINED)
    anna.now_ms += 4_000
    for generation_id, member_id in ((4, "anna-1"), (3, "anna-2")):
        later = JoinGroupResponse(
            generation_id=generation_id, protocol_name="range", leader="", member_id=member_id, members=[]
        )
        anna.get(JOIN, later)
    anna.now_ms += 1_000
    assert anna.send(SYNC) is None


def test_the_time_counts_from_the_first_response_of_a_generation() -> None:
    anna = Anna("slow-sync:5s")
    anna.get(JOIN, JOINED)
    anna.now_ms += 4_000
    anna.get(JOIN, JOINED)
    anna.now_ms += 1_000
    assert anna.send(SYNC) is None


def test_a_member_that_is_slow_to_join_leaves_poll_after_an_assignment_alone() -> None:
    anna = Anna("slow-join:5s")
    anna.beat(assigned=True)
    anna.now_ms += 1_000
    assert anna.send_outside_poll(1_000) is None
    anna.beat(assigned=False)
    anna.now_ms += 1_000
    assert anna.send_outside_poll(2_000) is None
    assert anna.send_outside_poll(1_000) == LEAVES_POLL_FOR_AN_ASSIGNMENT


def test_of_two_heartbeats_in_one_millisecond_either_may_have_had_the_assignment() -> None:
    anna = Anna("slow-join:5s")
    anna.beat(assigned=True)
    anna.now_ms += 1
    anna.beat(assigned=False)
    anna.now_ms += 1_000
    assert anna.send_outside_poll(1_000) is None


@pytest.mark.parametrize("fault", ["slow-revoke:5s", "no-poll:5s"])
def test_other_faults_keep_an_application_outside_poll_as_well(fault: str) -> None:
    anna = Anna("slow-join:5s", fault)
    anna.beat(assigned=False)
    assert anna.send_outside_poll(0) is None


def sync(*lists: tuple[int, ...]) -> SyncGroupRequest:
    """The SyncGroup of a leader that assigns these partitions of a topic to one member each."""
    assignments = [
        SyncGroupRequestAssignment(
            member_id=f"member-{place}",
            assignment=encode_assignment(Assignment(3, tuple(TopicPartition("orders", each) for each in numbers))),
        )
        for place, numbers in enumerate(lists)
    ]
    return SyncGroupRequest(**IDS, assignments=assignments)


@pytest.mark.parametrize("lists", [((0, 1), (2, 0)), ((), (0, 1)), ((0, 1), ()), ((0, 1), (2, 1))])
def test_a_leader_whose_assignor_doubles_assigns_the_first_partition_of_a_member_twice(
    lists: tuple[tuple[int, ...], ...],
) -> None:
    anna = Anna("assignor-doubles")
    anna.now_ms += 1_000
    anna.get(JOIN, JOINED)
    assert anna.send(sync(*lists)) == (None if 0 in lists[0] and 0 in lists[1] else DOUBLES_ONE_PARTITION)


def test_a_leader_doubles_nothing_without_a_second_member_or_a_partition_or_before_its_fault() -> None:
    anna = Anna("assignor-doubles")
    anna.get(JOIN, JOINED)
    assert anna.send(sync((0,), (1,))) is None, "the fault began at the earliest with the generation"
    anna = Anna("assignor-doubles")
    anna.now_ms += 1_000
    anna.get(JOIN, JOINED)
    assert [anna.send(each) for each in (SYNC, sync((0, 1)), sync((), ()))] == [None] * 3


@pytest.mark.parametrize("reads_committed", [False, True])
def test_records_are_read_with_the_isolation_level_of_the_settings(reads_committed: bool) -> None:
    anna = Anna(reads_committed=reads_committed)
    for level in (0, 1):
        found = None if level == reads_committed else READS_AS_CONFIGURED
        fetch = FetchRequest(max_wait_ms=1, min_bytes=1, isolation_level=level, topics=[])
        assert anna.send(fetch) == found
        assert anna.send(ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[])) == found


def planned_join() -> JoinGroupRequest:
    offered = [assignor_named(each) for each in SETTINGS.partition_assignment_strategy]
    protocols = join_group_protocols(SETTINGS, offered, ["orders"], (), MemberGeneration(), {})
    return join_group(SETTINGS, MemberGeneration(), protocols, "")


def planned_heartbeat() -> ConsumerGroupHeartbeatRequest:
    instance_id, assignor = SETTINGS.group_instance_id, SETTINGS.group_remote_assignor
    timeout_ms = SETTINGS.max_poll_interval_ms
    return ConsumerProtocolMachine(
        "payments", "anna-1", ["orders"], timeout_ms, instance_id, assignor=assignor
    ).heartbeat()


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_timeout_ms": 20_000},
        {"rebalance_timeout_ms": 10_000},
        {"rebalance_timeout_ms": -1},
        {"group_instance_id": None},
        {"protocols": list(reversed(planned_join().protocols))},
    ],
    ids=str,
)
def test_a_member_joins_with_the_timeouts_assignors_and_instance_id_of_its_settings(wrong: dict[str, Any]) -> None:
    assert Anna(settings=SETTINGS).send(planned_join()) is None
    assert Anna(settings=SETTINGS).send(replace(planned_join(), **wrong)) == JOINS_AS_CONFIGURED


@pytest.mark.parametrize(
    "wrong", [{"rebalance_timeout_ms": 10_000}, {"rebalance_timeout_ms": -1}, {"instance_id": None}], ids=str
)
def test_a_member_of_the_consumer_protocol_joins_with_its_settings(wrong: dict[str, Any]) -> None:
    assert Anna(settings=SETTINGS).send(planned_heartbeat()) is None
    assert Anna(settings=SETTINGS).send(replace(planned_heartbeat(), **wrong)) == JOINS_AS_CONFIGURED
    assert Anna(settings=SETTINGS).send(replace(planned_heartbeat(), server_assignor="uniform")) == JOINS_AS_CONFIGURED


def test_a_later_heartbeat_need_not_repeat_the_rebalance_timeout_and_does_not_change_it() -> None:
    anna = Anna(settings=SETTINGS)
    assert anna.send(CONSUMER_HEARTBEAT) is None
    assert anna.send(replace(planned_heartbeat(), member_epoch=3)) is None
    assert anna.send(replace(CONSUMER_HEARTBEAT, rebalance_timeout_ms=1_000)) == JOINS_AS_CONFIGURED


def test_a_member_that_has_restarted_as_a_stranger_has_no_instance_id() -> None:
    anna = Anna("restart-as-stranger:5s", settings=SETTINGS)
    assert anna.send(replace(planned_join(), group_instance_id=None)) is None
    assert anna.send(planned_join()) == JOINS_AS_CONFIGURED
