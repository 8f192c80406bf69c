"""A leader with a bad subscription or a bad assignor: an error out of its poll() that names the culprit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from regroup.assignors.interface import Assignments, Assignor, AssignorError, Cluster, LastAssignment, Member
from regroup.members.consumer.effects import ErrorKind
from regroup.members.consumer.inputs import Answered, Poll
from regroup.members.consumer.state import Phase
from regroup.protocol.consumer.subscription import Assignment, Subscription, TopicPartition, encode_subscription
from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.members.conftest import Stage

    StageWith = Callable[..., Stage]

GOOD = encode_subscription(Subscription(3, ("orders",)))


class Own(Assignor):
    """A user's assignor; what it does is handed in."""

    name = "own"

    def __init__(self, deal: Callable[[Cluster, Mapping[str, Member]], Assignments]) -> None:
        self._deal = deal

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        return self._deal(cluster, members)


def elected(stage: Stage, metadata_of_ben: bytes = GOOD, protocol: str = "own") -> None:
    members = [
        JoinGroupResponseMember(member_id="anna", metadata=GOOD),
        JoinGroupResponseMember(member_id="ben", metadata=metadata_of_ben),
    ]
    joining = stage.take(JoinGroupRequest)
    response = JoinGroupResponse(
        generation_id=1, protocol_name=protocol, leader="anna", member_id="anna", members=members
    )
    stage.when(Answered(joining.number, response))


def leading(stage: Stage, metadata_of_ben: bytes = GOOD, protocol: str = "own") -> str:
    """The text of the error that comes out of poll()."""
    stage.subscribed()
    stage.coordinator_found()
    elected(stage, metadata_of_ben, protocol)
    (error,) = stage.raised
    assert error.kind is ErrorKind.ASSIGNOR
    assert not error.fatal
    return error.text


def fails(cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
    raise ZeroDivisionError("nobody to divide by")


def gives_what_is_not_there(cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
    return {"anna": [], "ben": [TopicPartition("orders", 17)]}


def forgets_ben(cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
    return {"anna": cluster.partitions("orders")}


def complains_of_ben(cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
    raise AssignorError("too greedy", member="ben")


@pytest.mark.parametrize(
    ("deal", "words"),
    [
        (fails, ["own", "nobody to divide by"]),
        (gives_what_is_not_there, ["own", "ben", "17", "4 partitions"]),
        (forgets_ben, ["own", "ben", "left out"]),
        (complains_of_ben, ["own", "ben", "too greedy"]),
    ],
    ids=["raises", "no such partition", "left out", "its own error"],
)
def test_a_bad_assignor_is_named_together_with_the_member(
    stage_with: StageWith, deal: Callable[[Cluster, Mapping[str, Member]], Assignments], words: list[str]
) -> None:
    text = leading(stage_with([Own(deal)], partition_assignment_strategy=("own",)))
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff", GOOD[:9]], ids=["empty", "cut", "version -1", "short"])
def test_a_subscription_that_cannot_be_read_is_named(stage: Stage, metadata: bytes) -> None:
    assert "the subscription of member ben cannot be read" in leading(stage, metadata, "cooperative-sticky")


def test_an_assignor_that_the_member_never_offered_is_refused(stage: Stage) -> None:
    assert leading(stage, protocol="roundrobin") == (
        "the coordinator chose the assignor 'roundrobin'; this member offered cooperative-sticky"
    )


def test_a_leader_that_failed_stays_in_the_group_and_tries_again_at_its_next_poll(stage_with: StageWith) -> None:
    attempts: list[int] = []

    def fails_once(cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("not today")
        return {"anna": cluster.partitions("orders"), "ben": []}

    stage = stage_with([Own(fails_once)], partition_assignment_strategy=("own",))
    leading(stage)
    assert stage.consumer.phase is Phase.COMPLETING
    assert not stage.consumer.is_polling
    stage.pass_time(3_000)
    assert stage.names() == ["Heartbeat"]
    stage.when(Poll())
    elected(stage)
    assert "SyncGroup" in stage.names()
    assert len(stage.raised) == 1


def test_an_assignor_that_raises_over_its_assignment_does_not_keep_it_from_the_member(stage_with: StageWith) -> None:
    class Forgetful(Own):
        def on_assignment(self, assignment: Assignment, generation: int) -> LastAssignment:
            raise KeyError("where was I")

    stage = stage_with(
        [Forgetful(lambda cluster, members: {"anna": [], "ben": []})], partition_assignment_strategy=("own",)
    )
    stage.subscribed()
    stage.coordinator_found()
    elected(stage)
    stage.synced(TopicPartition("orders", 0))
    assert stage.consumer.assigned == (TopicPartition("orders", 0),)
    assert "on_assignment" in stage.raised[0].text
