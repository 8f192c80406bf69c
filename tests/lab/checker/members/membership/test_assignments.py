"""What assignors remember of an assignment, and when members of the consumer protocol take one."""

import pytest

from regroup.lab.checker.members.membership.assignments import (
    COMMITS_WHAT_IT_OWNS,
    REMEMBERS_ITS_ASSIGNMENT,
    TAKES_NOTHING_IN_FLIGHT,
    Assignments,
)
from regroup.members.consumer.effects import (
    ConsumerChange,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.protocol.consumer.sticky_user_data import (
    StickyUserData,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
)
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
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

HEARTBEAT = ConsumerGroupHeartbeatRequest(group_id="payments", member_id="anna-1", member_epoch=3)
COMMIT = OffsetCommitRequest(
    group_id="payments",
    generation_id_or_member_epoch=3,
    member_id="anna-1",
    topics=[
        OffsetCommitRequestTopic(
            name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
        )
    ],
)
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def join(protocol_name: str, user_data: bytes | None) -> JoinGroupRequest:
    metadata = encode_subscription(Subscription(3, ("orders",), user_data))
    return JoinGroupRequest(
        group_id="payments",
        session_timeout_ms=1,
        member_id="anna-1",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=protocol_name, metadata=metadata)],
    )


def sync(assignments: Assignments, generation_id: int, *partitions: TopicPartition, error_code: int = 0) -> None:
    message = SyncGroupRequest(group_id="payments", generation_id=generation_id, member_id="anna-1", assignments=[])
    assignment = encode_assignment(Assignment(1, partitions))
    assignments.on_response("anna", message, SyncGroupResponse(error_code=error_code, assignment=assignment))


def member(protocol_name: str) -> Assignments:
    """Anna has taken orders-0 in generation 3."""
    assignments = Assignments()
    assignments.on_change("anna", JoinedGroup(3, "anna-1", is_leader=False, protocol_name=protocol_name))
    sync(assignments, 3, ORDERS_0)
    assert assignments.on_change("anna", PartitionsAssigned((ORDERS_0,))) is None
    return assignments


def detail_of(assignments: Assignments, message: JoinGroupRequest) -> str | None:
    violation = assignments.on_request("anna", message)
    assert violation is None or violation.sentence == REMEMBERS_ITS_ASSIGNMENT
    return violation.detail if violation else None


def test_a_cooperative_member_says_the_generation_of_its_last_assignment() -> None:
    assignments = member("cooperative-sticky")
    assert detail_of(assignments, join("cooperative-sticky", encode_cooperative_sticky_user_data(3))) is None
    found = detail_of(assignments, join("cooperative-sticky", encode_cooperative_sticky_user_data(2)))
    assert found == "anna joins: cooperative-sticky has generation 2, and the assignment is of 3"


def test_a_sticky_member_says_which_partitions_it_was_assigned() -> None:
    assignments = member("sticky")
    assert detail_of(assignments, join("sticky", encode_sticky_user_data(StickyUserData((ORDERS_0,), 3)))) is None
    found = detail_of(assignments, join("sticky", encode_sticky_user_data(StickyUserData((ORDERS_0, ORDERS_1), 3))))
    assert found == "anna joins: sticky and the assignment of generation 3 differ in orders-1"
    assert detail_of(assignments, join("sticky", None))


def test_a_zombie_may_send_a_join_that_it_has_begun_and_commit_what_it_has_given_up() -> None:
    """Seed 9740893 of a hunt becomes a zombie between its revocation and its JoinGroup."""
    assignments = member("sticky")
    assignments.on_change("anna", PartitionsRevoked((ORDERS_0,)))
    assert assignments.on_request("anna", COMMIT) is not None
    assignments.on_zombie("anna")
    assert detail_of(assignments, join("sticky", encode_sticky_user_data(StickyUserData((ORDERS_0,), 3)))) is None
    assert assignments.on_request("anna", COMMIT) is None


def test_user_data_of_version_0_have_no_generation() -> None:
    data = encode_sticky_user_data(StickyUserData((ORDERS_0,), None))
    assert detail_of(member("sticky"), join("sticky", data)) is None


def test_an_assignment_that_was_refused_or_not_taken_is_not_remembered() -> None:
    assignments, data = member("cooperative-sticky"), encode_cooperative_sticky_user_data(3)
    sync(assignments, 4, ORDERS_1, error_code=ErrorCode.ILLEGAL_GENERATION)
    sync(assignments, 5, ORDERS_1)
    assert detail_of(assignments, join("cooperative-sticky", data)) is None
    assignments.on_change("anna", PartitionsAssigned((ORDERS_1,)))
    assert detail_of(assignments, join("cooperative-sticky", data))


@pytest.mark.parametrize("protocol_name", ["cooperative-sticky", "sticky"])
def test_a_new_process_remembers_nothing(protocol_name: str) -> None:
    assignments = member(protocol_name)
    assignments.on_new_life("anna")
    data = encode_cooperative_sticky_user_data(-1) if protocol_name == "cooperative-sticky" else None
    assert detail_of(assignments, join(protocol_name, data)) is None


def test_other_assignors_have_user_data_of_their_own() -> None:
    assert detail_of(member("range"), join("range", b"\0")) is None


def test_partitions_that_are_taken_during_a_heartbeat_are_found() -> None:
    assignments = Assignments()
    assert assignments.on_request("anna", HEARTBEAT) is None
    violation = assignments.on_change("anna", PartitionsAssigned((ORDERS_0,)))
    assert violation == (TAKES_NOTHING_IN_FLIGHT, "anna takes orders-0 during a heartbeat")


@pytest.mark.parametrize("response", [ConsumerGroupHeartbeatResponse(heartbeat_interval_ms=5_000), None])
def test_partitions_that_are_taken_after_a_heartbeat_are_right(response: ConsumerGroupHeartbeatResponse | None) -> None:
    assignments = Assignments()
    assignments.on_request("anna", HEARTBEAT)
    assignments.on_response("anna", HEARTBEAT, response)
    assert assignments.on_change("anna", PartitionsAssigned((ORDERS_0,))) is None


@pytest.mark.parametrize("change", [PartitionsRevoked((ORDERS_0,)), PartitionsLost((ORDERS_0,))])
def test_a_commit_of_a_partition_that_was_given_up_is_found(change: ConsumerChange) -> None:
    assignments = member("range")
    assert assignments.on_request("anna", COMMIT) is None
    assignments.on_change("anna", change)
    violation = assignments.on_request("anna", COMMIT)
    assert violation == (COMMITS_WHAT_IT_OWNS, "anna commits orders-0, and has given that up")


def test_a_partition_that_is_assigned_again_may_be_committed() -> None:
    assignments = member("range")
    assignments.on_change("anna", PartitionsRevoked((ORDERS_0,)))
    assignments.on_change("anna", PartitionsAssigned((ORDERS_0,)))
    assert assignments.on_request("anna", COMMIT) is None


def test_a_commit_may_have_waited_for_the_coordinator() -> None:
    assignments = member("range")
    assignments.on_change("anna", PartitionsRevoked((ORDERS_0,)))
    assignments.on_request("anna", FindCoordinatorRequest(key="payments"))
    assert assignments.on_request("anna", COMMIT) is None


def refused_commit(error_code: ErrorCode | None, *, uses_consumer_protocol: bool = True) -> Assignments:
    """Anna's commit of orders-0 has ended with this error, without a response if it is None."""
    assignments = Assignments() if uses_consumer_protocol else member("range")
    if uses_consumer_protocol:
        assignments.on_request("anna", HEARTBEAT)
        assignments.on_response("anna", HEARTBEAT, None)
    assignments.on_request("anna", COMMIT)
    assignments.on_response("anna", COMMIT, None if error_code is None else commit_response(error_code))
    return assignments


def commit_response(error_code: ErrorCode) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=error_code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[partition])])


@pytest.mark.parametrize("error_code", [None, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_commit_that_has_failed_may_be_repeated_once_after_its_partitions_were_given_up(
    error_code: ErrorCode | None,
) -> None:
    assignments = refused_commit(error_code)
    assignments.on_change("anna", PartitionsLost((ORDERS_0,)))
    assert assignments.on_request("anna", COMMIT) is None
    assert assignments.on_request("anna", COMMIT) is not None


@pytest.mark.parametrize("error_code", [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_commit_that_was_accepted_or_refused_for_good_is_not_repeated_after_a_revocation(
    error_code: ErrorCode,
) -> None:
    assignments = refused_commit(error_code)
    assignments.on_change("anna", PartitionsLost((ORDERS_0,)))
    assert assignments.on_request("anna", COMMIT) is not None


def test_a_classic_member_repeats_no_commit_after_a_revocation() -> None:
    assignments = refused_commit(ErrorCode.COORDINATOR_NOT_AVAILABLE, uses_consumer_protocol=False)
    assignments.on_change("anna", PartitionsRevoked((ORDERS_0,)))
    assert assignments.on_request("anna", COMMIT) is not None


def test_a_commit_of_an_earlier_ownership_is_not_repeated() -> None:
    assignments = refused_commit(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for change in (PartitionsRevoked, PartitionsAssigned, PartitionsRevoked):
        assignments.on_change("anna", change((ORDERS_0,)))
    assert assignments.on_request("anna", COMMIT) is not None


def test_what_a_former_process_hears_lets_the_next_one_repeat_nothing() -> None:
    assignments = refused_commit(None)
    assignments.on_request("anna", COMMIT)
    assignments.on_new_life("anna")
    assignments.on_response("anna", COMMIT, None)
    assignments.on_change("anna", PartitionsLost((ORDERS_0,)))
    assert assignments.on_request("anna", COMMIT) is not None


def test_a_commit_of_which_only_some_partitions_are_assigned_again_may_still_be_repeated() -> None:
    assignments = Assignments()
    assignments.on_request("anna", HEARTBEAT)
    assignments.on_response("anna", HEARTBEAT, None)
    partitions = [OffsetCommitRequestPartition(partition_index=each, committed_offset=5) for each in (0, 1)]
    commit = OffsetCommitRequest(
        group_id="payments", topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)]
    )
    assignments.on_request("anna", commit)
    assignments.on_response("anna", commit, None)
    assignments.on_change("anna", PartitionsLost((ORDERS_0, TopicPartition("orders", 1))))
    assignments.on_change("anna", PartitionsAssigned((ORDERS_0,)))
    assert assignments.on_request("anna", commit) is None
