"""A leader with a malformed subscription or a failing assignor: the error of its poll() names the cause."""

from collections.abc import Callable, Mapping

import pytest

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorError,
    AssignorMember,
    ClusterMetadata,
    LastAssignment,
)
from regroup.members.consumer.effects import ConsumerErrorKind
from regroup.members.consumer.inputs import Poll, ResponseReceived
from regroup.members.consumer.state import MemberState
from regroup.protocol.consumer.subscription import Assignment, Subscription, TopicPartition, encode_subscription
from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from tests.members.harness import MemberHarness

GOOD = encode_subscription(Subscription(3, ("orders",)))


class OwnAssignor(Assignor):
    """A user's assignor that calls `assign`."""

    name = "own"

    def __init__(self, assign: Callable[[ClusterMetadata, Mapping[str, AssignorMember]], Assignments]) -> None:
        self._assign = assign

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        return self._assign(cluster, members)


def become_leader(member: MemberHarness, metadata_of_ben: bytes = GOOD, protocol: str = "own") -> None:
    members = [
        JoinGroupResponseMember(member_id="anna", metadata=GOOD),
        JoinGroupResponseMember(member_id="ben", metadata=metadata_of_ben),
    ]
    request = member.take_request(JoinGroupRequest)
    response = JoinGroupResponse(
        generation_id=1, protocol_name=protocol, leader="anna", member_id="anna", members=members
    )
    member.receive(ResponseReceived(request.request_id, response))


def error_of_leader(member: MemberHarness, metadata_of_ben: bytes = GOOD, protocol: str = "own") -> str:
    """The text of the error that comes out of the leader's poll()."""
    member.subscribe()
    member.find_coordinator()
    become_leader(member, metadata_of_ben, protocol)
    (error,) = member.poll_errors
    assert error.kind is ConsumerErrorKind.ASSIGNOR
    assert not error.is_fatal
    return error.text


def raise_error(cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
    raise ZeroDivisionError("division by zero members")


def assign_missing_partition(cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
    return {"anna": [], "ben": [TopicPartition("orders", 17)]}


def leave_ben_out(cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
    return {"anna": cluster.partitions("orders")}


def raise_error_about_ben(cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
    raise AssignorError("too greedy", member="ben")


@pytest.mark.parametrize(
    ("assign", "words"),
    [
        (raise_error, ["own", "division by zero members"]),
        (assign_missing_partition, ["own", "ben", "17", "4 partitions"]),
        (leave_ben_out, ["own", "ben", "left out"]),
        (raise_error_about_ben, ["own", "ben", "too greedy"]),
    ],
    ids=["raises", "no such partition", "left out", "its own error"],
)
def test_the_error_names_the_failing_assignor_and_the_member(
    assign: Callable[[ClusterMetadata, Mapping[str, AssignorMember]], Assignments],
    words: list[str],
) -> None:
    text = error_of_leader(MemberHarness([OwnAssignor(assign)], partition_assignment_strategy=("own",)))
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff", GOOD[:9]], ids=["empty", "cut", "version -1", "short"])
def test_the_error_names_the_member_with_a_malformed_subscription(member: MemberHarness, metadata: bytes) -> None:
    assert "the subscription of member ben cannot be read" in error_of_leader(member, metadata, "cooperative-sticky")


def test_an_assignor_that_the_member_did_not_offer_is_an_error(member: MemberHarness) -> None:
    assert error_of_leader(member, protocol="roundrobin") == (
        "the coordinator chose the assignor 'roundrobin'; this member offered cooperative-sticky"
    )


def test_a_leader_that_failed_stays_in_the_group_and_rejoins_at_its_next_poll() -> None:
    attempts: list[int] = []

    def fail_once(cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("not today")
        return {"anna": cluster.partitions("orders"), "ben": []}

    member = MemberHarness([OwnAssignor(fail_once)], partition_assignment_strategy=("own",))
    error_of_leader(member)
    assert member.consumer.state is MemberState.COMPLETING_REBALANCE
    assert not member.consumer.is_polling
    member.pass_time(3_000)
    assert member.open_request_names() == ["Heartbeat"]
    member.receive(Poll())
    become_leader(member)
    assert "SyncGroup" in member.open_request_names()
    assert len(member.poll_errors) == 1


def test_a_member_gets_its_assignment_although_its_assignor_raises_in_on_assignment() -> None:
    class FailingOnAssignment(OwnAssignor):
        def on_assignment(self, assignment: Assignment, generation: int) -> LastAssignment:
            raise KeyError("lost")

    member = MemberHarness(
        [FailingOnAssignment(lambda cluster, members: {"anna": [], "ben": []})], partition_assignment_strategy=("own",)
    )
    member.subscribe()
    member.find_coordinator()
    become_leader(member)
    member.complete_sync(TopicPartition("orders", 0))
    assert member.consumer.assigned_partitions == (TopicPartition("orders", 0),)
    assert "on_assignment" in member.poll_errors[0].text
