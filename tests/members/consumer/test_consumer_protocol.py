"""A member of the consumer protocol: what its heartbeats say, and how it reconciles with its assignment."""

import pytest

from regroup.members.consumer.consumer_protocol import ConsumerProtocolMachine, HeartbeatResult
from regroup.members.consumer.effects import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from regroup.members.consumer.state import MemberState
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)

ORDERS_ID = bytes(15) + b"\x01"
NEW_ORDERS_ID = bytes(15) + b"\x02"
"""The id of the topic after it was deleted and created again."""


def orders(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", number) for number in numbers)


def answer(
    epoch: int, *numbers: int, is_changed: bool = True, topic_id: bytes = ORDERS_ID
) -> ConsumerGroupHeartbeatResponse:
    share = [ConsumerGroupTopicPartitions(topic_id=topic_id, partitions=list(numbers))] if numbers else []
    assignment = ConsumerGroupAssignment(topic_partitions=share) if is_changed else None
    return ConsumerGroupHeartbeatResponse(
        member_id="a", member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=assignment
    )


@pytest.fixture
def machine() -> ConsumerProtocolMachine:
    made = ConsumerProtocolMachine("g", "a", ["orders"], 300_000)
    made.learn_topics({ORDERS_ID: "orders"})
    return made


def test_the_first_heartbeat_says_everything_and_later_ones_only_what_has_changed(
    machine: ConsumerProtocolMachine,
) -> None:
    first = machine.heartbeat()
    assert (first.member_epoch, first.subscribed_topic_names, first.topic_partitions) == (0, ["orders"], [])
    assert first.rebalance_timeout_ms == 300_000
    assert machine.on_response(answer(3, 0, 1)) is HeartbeatResult.ASSIGNED
    assert machine.state is MemberState.PREPARING_REBALANCE
    waiting = machine.heartbeat()
    assert (waiting.member_epoch, waiting.subscribed_topic_names, waiting.topic_partitions) == (3, None, None)
    assert machine.reconcile() == [PartitionsAssigned(orders(0, 1))]
    done = machine.heartbeat()
    assert done.topic_partitions == [ConsumerGroupTopicPartitions(topic_id=ORDERS_ID, partitions=[0, 1])]
    assert done.subscribed_topic_names is None
    assert machine.on_response(answer(3, is_changed=False)) is HeartbeatResult.UNCHANGED
    assert machine.heartbeat().topic_partitions is None
    assert machine.state is MemberState.STABLE


def test_a_member_votes_for_an_assignor_when_it_says_everything() -> None:
    machine = ConsumerProtocolMachine("g", "a", ["orders"], 300_000, assignor="range")
    assert machine.heartbeat().server_assignor == "range"
    machine.on_response(answer(1, is_changed=False))
    assert machine.heartbeat().server_assignor is None
    machine.repeat_everything()
    assert machine.heartbeat().server_assignor == "range"


def test_a_smaller_assignment_is_given_up_first_and_reported(machine: ConsumerProtocolMachine) -> None:
    machine.on_response(answer(2, 0, 1))
    machine.reconcile()
    machine.on_response(answer(3, 1, 2))
    assert machine.assigned_partitions == orders(0, 1), "it reads on until it polls"
    assert machine.reconcile() == [PartitionsRevoked(orders(0)), PartitionsAssigned(orders(2))]
    assert machine.heartbeat().topic_partitions == [ConsumerGroupTopicPartitions(topic_id=ORDERS_ID, partitions=[1, 2])]
    assert machine.reconcile() == []


def test_the_same_partitions_of_a_topic_that_was_created_again_are_reported_by_its_new_id(
    machine: ConsumerProtocolMachine,
) -> None:
    """Java compares assignments by topic id, and partitions that change owner by name."""
    machine.on_response(answer(2, 0, 1))
    machine.reconcile()
    machine.heartbeat()
    machine.learn_topics({NEW_ORDERS_ID: "orders"})
    assert machine.on_response(answer(3, 0, 1, topic_id=NEW_ORDERS_ID)) is HeartbeatResult.UNCHANGED
    assert machine.has_changed
    reported = [ConsumerGroupTopicPartitions(topic_id=NEW_ORDERS_ID, partitions=[0, 1])]
    assert machine.heartbeat().topic_partitions == reported
    machine.on_response(answer(3, 0, 1, topic_id=NEW_ORDERS_ID))
    assert not machine.has_changed


def test_owned_partitions_keep_their_topic_id_until_the_assignment_has_another(
    machine: ConsumerProtocolMachine,
) -> None:
    machine.on_response(answer(2, 0, 1))
    machine.reconcile()
    machine.learn_topics({NEW_ORDERS_ID: "orders"})
    machine.on_response(answer(3, 1, 2, topic_id=NEW_ORDERS_ID))
    machine.revoke(machine.revocable)
    assert machine.heartbeat().topic_partitions == [ConsumerGroupTopicPartitions(topic_id=ORDERS_ID, partitions=[1])]
    assert machine.reconcile() == [PartitionsAssigned(orders(2))]
    reported = [ConsumerGroupTopicPartitions(topic_id=NEW_ORDERS_ID, partitions=[1, 2])]
    assert machine.heartbeat().topic_partitions == reported


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_again(machine: ConsumerProtocolMachine, code: ErrorCode) -> None:
    machine.on_response(answer(2, 0))
    machine.reconcile()
    assert machine.on_response(ConsumerGroupHeartbeatResponse(error_code=code)) is HeartbeatResult.FENCED
    assert machine.lose() == PartitionsLost(orders(0))
    again = machine.heartbeat()
    assert (again.member_epoch, again.subscribed_topic_names, again.topic_partitions) == (0, ["orders"], [])
    assert machine.state is MemberState.UNJOINED


def test_another_coordinator_is_told_everything(machine: ConsumerProtocolMachine) -> None:
    machine.on_response(answer(2, 0))
    machine.reconcile()
    machine.heartbeat()
    moved = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert machine.on_response(moved) is HeartbeatResult.ELSEWHERE
    again = machine.heartbeat()
    assert (again.member_epoch, again.subscribed_topic_names) == (2, ["orders"])
    assert again.topic_partitions == [ConsumerGroupTopicPartitions(topic_id=ORDERS_ID, partitions=[0])]


def test_a_member_that_leaves_gives_everything_up_before(machine: ConsumerProtocolMachine) -> None:
    machine.on_response(answer(2, 0))
    machine.reconcile()
    request, change = machine.leave()
    assert (request.member_epoch, change) == (-1, PartitionsRevoked(orders(0)))
    assert machine.assigned_partitions == ()


def test_a_member_that_leaves_without_partitions_reports_no_revocation(machine: ConsumerProtocolMachine) -> None:
    machine.on_response(answer(2))
    request, change = machine.leave()
    assert (request.member_epoch, change) == (-1, None)
