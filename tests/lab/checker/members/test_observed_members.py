"""What the lab makes of a member's requests and notes together."""

import asyncio

import pytest
from msgspec.structs import replace

from regroup.coordinator.commands import OffsetCommit, RequestedOffset
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import Cause
from regroup.lab.checker.members.member_invariants import COOPERATIVE_PROTOCOL
from regroup.lab.checker.members.membership.assignments import REMEMBERS_ITS_ASSIGNMENT
from regroup.lab.checker.members.observed_members import ObservedMembers
from regroup.lab.checker.members.records.outputs import OutputLedger
from regroup.lab.checker.members.records.positions import COMMITS_BEFORE_REVOCATION, COMMITS_DO_NOT_GO_BACK
from regroup.lab.checker.members.subscriptions import LATE_ERROR_WAITS
from regroup.lab.checker.members.topic_names import REPORTS_NEW_IDS
from regroup.lab.checker.violations import ViolationLog
from regroup.members.consumer.effects import (
    ConsumerError,
    ConsumerErrorKind,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsRevoked,
)
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan
from regroup.protocol.consumer.sticky_user_data import StickyUserData, encode_sticky_user_data
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import MetadataRequest, MetadataResponse, MetadataResponseTopic
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from regroup.server.cluster.events import TopicCreated, TopicDeleted, encode_cluster_event
from tests.lab.checker.checker_harness import CheckerHarness
from tests.lab.checker.made_exchanges import checker_state, made_exchange

ORDERS_0 = TopicPartition("orders", 0)
JOIN = JoinGroupRequest(
    group_id="payments", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[], reason=""
)


async def test_partitions_need_no_owner_between_the_stored_events_that_delete_and_create_their_topic() -> None:
    """The order in the store counts: events may be recorded long before."""
    harness = CheckerHarness()
    members = harness.checker.members
    members.add_member("ben", "payments")
    members.on_change("ben", PartitionsAssigned((ORDERS_0,)), 0)
    events = (
        TopicCreated(name="orders", topic_id="a", partitions=1),
        TopicDeleted(name="orders", topic_id="a"),
        TopicCreated(name="orders", topic_id="b", partitions=1),
    )
    unowned_s = []
    for number, event in enumerate(events, 1):
        record = encode_cluster_event(
            event, event_number=number, coordinator_epoch=1, at_ms=0, cause=Cause(internal="test")
        )
        await asyncio.sleep(10)
        await harness.store.append([record])
        at_ms = number * 10_000
        members.on_change("ben", PartitionsAssigned((ORDERS_0,)), at_ms)
        members.on_change("ben", PartitionsRevoked((ORDERS_0,)), at_ms)
        unowned_s.append(members.unowned_s(at_ms + 1_000))
    assert unowned_s == [1, 10, 11]


def commit(members: ObservedMembers, member_id: str, offset: int) -> None:
    command = OffsetCommit(
        group_id="payments",
        at_ms=0,
        member_id=member_id,
        generation_id=-1,
        offsets=(RequestedOffset(topic="orders", partition=0, offset=offset),),
    )
    members.on_commit(made_exchange(command, Group(group_id="payments")), command)


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
        commit(members, "ben-1", offset)
    assert [each.sentence for each in violations.found] == found


def test_a_member_may_commit_the_lower_offset_that_a_client_outside_the_plan_has_committed() -> None:
    violations = ViolationLog(checker_state())
    members = ObservedMembers(checker_state(), OutputLedger(), violations)
    members.add_member("ben", "payments")
    members.on_change("ben", JoinedGroup(1, "ben-1", is_leader=False, protocol_name="range"), 0)
    for member_id, offset in (("ben-1", 29), ("a stranger", 28), ("ben-1", 28)):
        commit(members, member_id, offset)
    assert violations.found == []


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


@pytest.mark.parametrize(
    ("codes", "found"),
    [
        ((0, 0), ["orders-0", "orders-1"]),
        ((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), ["orders-1"]),
        ((0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ["orders-0"]),
        ((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,) * 2, []),
    ],
)
def test_only_the_accepted_partitions_of_a_commit_count_as_committed(codes: tuple[int, int], found: list[str]) -> None:
    """Before it gives partitions up, a member has committed all that it has processed."""
    violated = []
    for index in (0, 1):
        state = checker_state()
        violations = ViolationLog(state)
        members = ObservedMembers(state, OutputLedger(), violations)
        members.add_member("anna", "payments")
        partition = TopicPartition("orders", index)
        members.ledger("payments", "anna").record_processed(partition, 9, 0, 0)
        sent = [OffsetCommitRequestPartition(partition_index=each, committed_offset=5) for each in (0, 1)]
        request = OffsetCommitRequest(
            group_id="payments", topics=[OffsetCommitRequestTopic(name="orders", partitions=sent)]
        )
        rows = [OffsetCommitResponsePartition(partition_index=each, error_code=codes[each]) for each in (0, 1)]
        response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=rows)])
        members.on_response("anna", request, response)
        members.on_change("anna", PartitionsRevoked((partition,)), 0)
        if COMMITS_BEFORE_REVOCATION in [each.sentence for each in violations.found]:
            violated.append(str(partition))
    assert violated == found


def test_a_zombie_may_send_a_join_that_it_has_begun() -> None:
    violations = ViolationLog(checker_state())
    members = ObservedMembers(checker_state(), OutputLedger(), violations)
    members.add_member("ben", "payments")
    members.on_change("ben", JoinedGroup(3, "ben-1", is_leader=False, protocol_name="sticky"), 0)
    sync = SyncGroupRequest(group_id="payments", generation_id=3, member_id="ben-1", assignments=[])
    members.on_response("ben", sync, SyncGroupResponse(assignment=encode_assignment(Assignment(1, (ORDERS_0,)))))
    members.on_change("ben", PartitionsAssigned((ORDERS_0,)), 0)
    members.on_note("ben", FaultBegan(parse_fault("zombie")))
    user_data = encode_sticky_user_data(StickyUserData((ORDERS_0,), 3))
    metadata = encode_subscription(Subscription(3, ("orders",), user_data))
    members.on_request("ben", replace(JOIN, protocols=[JoinGroupRequestProtocol(name="sticky", metadata=metadata)]))
    assert REMEMBERS_ITS_ASSIGNMENT not in [each.sentence for each in violations.found]


def test_a_member_of_the_consumer_protocol_is_asked_for_new_topic_ids() -> None:
    violations = ViolationLog(checker_state())
    members = ObservedMembers(checker_state(), OutputLedger(), violations)
    members.add_member("anna", "payments", is_classic=False, asks_for_metadata_alone=True)
    former, new = (ConsumerGroupTopicPartitions(topic_id=bytes(15) + bytes([each]), partitions=[0]) for each in (1, 2))
    topics = [MetadataResponseTopic(name="orders", topic_id=each.topic_id) for each in (former, new)]
    members.on_response("anna", MetadataRequest(topics=[]), MetadataResponse(brokers=[], topics=topics))
    for reported, given in ((former, former), (None, new), (None, None)):
        owned = None if reported is None else [reported]
        assignment = None if given is None else ConsumerGroupAssignment(topic_partitions=[given])
        beat = ConsumerGroupHeartbeatRequest(group_id="payments", member_id="a", member_epoch=1, topic_partitions=owned)
        members.on_request("anna", beat)
        members.on_response("anna", beat, ConsumerGroupHeartbeatResponse(member_epoch=1, assignment=assignment))
    assert REPORTS_NEW_IDS in [each.sentence for each in violations.found]


def test_the_late_error_of_an_unsubscribed_member_is_found() -> None:
    violations = ViolationLog(checker_state())
    members = ObservedMembers(checker_state(), OutputLedger(), violations)
    members.add_member("anna", "payments")
    members.on_request("anna", JOIN)
    members.on_unsubscribe("anna")
    members.on_response("anna", JOIN, JoinGroupResponse(error_code=999, leader="", member_id=""))
    members.on_change("anna", ConsumerError(ConsumerErrorKind.GROUP, "999", code=999), 0)
    assert LATE_ERROR_WAITS in [each.sentence for each in violations.found]
