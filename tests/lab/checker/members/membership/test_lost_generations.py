"""A classic member whose generation is refused reports its partitions as lost, and only then joins."""

import pytest

from regroup.lab.checker.members.membership.lost_generations import LOSES_ITS_PARTITIONS, LostGenerations
from regroup.members.consumer.effects import (
    JoinedGroup,
    LeftGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataRequest
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse, JoinGroupRequest
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from regroup.protocol.messages.records import FetchRequest

ORDERS_0 = TopicPartition("orders", 0)
JOIN = JoinGroupRequest(
    group_id="payments", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[], reason=""
)
REFUSED = HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
REFUSED_COMMIT = OffsetCommitResponse(
    topics=[
        OffsetCommitResponseTopic(
            name="orders",
            partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.UNKNOWN_MEMBER_ID)],
        )
    ]
)


def heartbeat(generation_id: int = 3) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="payments", generation_id=generation_id, member_id="ben-1")


def owner(paused: tuple[str, ...] = ()) -> LostGenerations:
    """Ben has joined generation 3, and owns a partition."""
    generations = LostGenerations(paused)
    generations.on_request("ben", JOIN)
    generations.on_change("ben", JoinedGroup(3, "ben-1", is_leader=False, protocol_name="range"))
    generations.on_change("ben", PartitionsAssigned((ORDERS_0,)))
    return generations


def exchange(generations: LostGenerations, message: Message, response: Message | None) -> None:
    generations.on_request("ben", message)
    generations.on_response("ben", message, response)


def is_violated_by_join(generations: LostGenerations) -> bool:
    violation = generations.on_request("ben", JOIN)
    return violation is not None and violation.sentence == LOSES_ITS_PARTITIONS


def test_a_member_that_joins_with_partitions_of_a_refused_generation_is_found() -> None:
    generations = owner()
    exchange(generations, heartbeat(), REFUSED)
    assert is_violated_by_join(generations)


def test_a_refused_commit_ends_the_generation_too() -> None:
    generations = owner()
    commit = OffsetCommitRequest(group_id="payments", generation_id_or_member_epoch=3, member_id="ben-1", topics=[])
    exchange(generations, commit, REFUSED_COMMIT)
    assert is_violated_by_join(generations)


def test_a_member_that_revokes_what_it_has_lost_is_found() -> None:
    generations = owner()
    exchange(generations, heartbeat(), REFUSED)
    violation = generations.on_change("ben", PartitionsRevoked((ORDERS_0,)))
    assert violation is not None
    assert violation.detail == "ben reports that it gives up orders-0"


def test_a_member_that_reports_its_partitions_as_lost_may_join() -> None:
    generations = owner()
    exchange(generations, heartbeat(), REFUSED)
    assert generations.on_change("ben", PartitionsLost((ORDERS_0,))) is None
    assert not is_violated_by_join(generations)


@pytest.mark.parametrize(
    ("message", "response"),
    [
        (heartbeat(), HeartbeatResponse()),
        (heartbeat(), HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)),
        (heartbeat(2), REFUSED),
        (heartbeat(), None),
    ],
    ids=["accepted", "rebalance", "former-generation", "no-response"],
)
def test_other_responses_leave_the_generation(message: HeartbeatRequest, response: HeartbeatResponse | None) -> None:
    generations = owner()
    exchange(generations, message, response)
    assert not is_violated_by_join(generations)


def test_a_response_after_a_lost_connection_is_ignored() -> None:
    generations, late, failed = owner(), heartbeat(), heartbeat()
    generations.on_request("ben", late)
    exchange(generations, failed, None)
    generations.on_response("ben", late, REFUSED)
    assert not is_violated_by_join(generations)


@pytest.mark.parametrize(
    "elsewhere",
    [MetadataRequest(topics=[]), FetchRequest(max_wait_ms=500, min_bytes=1, topics=[])],
    ids=["metadata", "fetch"],
)
def test_a_response_of_the_coordinator_counts_though_a_request_to_another_broker_fails(elsewhere: Message) -> None:
    generations, refused = owner(), heartbeat()
    generations.on_request("ben", refused)
    exchange(generations, elsewhere, None)
    generations.on_response("ben", refused, REFUSED)
    assert is_violated_by_join(generations)


def test_a_member_that_pauses_or_has_left_is_not_judged() -> None:
    paused, left = owner(paused=("ben",)), owner()
    left.on_change("ben", LeftGroup("closed"))
    for generations in (paused, left):
        exchange(generations, heartbeat(), REFUSED)
        assert not is_violated_by_join(generations)


def test_a_new_process_has_lost_nothing() -> None:
    generations = owner()
    exchange(generations, heartbeat(), REFUSED)
    generations.on_new_life("ben")
    assert not is_violated_by_join(generations)


def test_what_is_refused_after_the_join_group_is_not_judged() -> None:
    generations, late = owner(), heartbeat()
    generations.on_request("ben", late)
    generations.on_request("ben", JOIN)
    generations.on_response("ben", late, REFUSED)
    assert not is_violated_by_join(generations)
