"""What a member does next that knows assigned topics by their ids alone, or has partitions under new topic ids."""

from uuid import UUID

import pytest

from regroup.lab.checker.members.topic_names import ASKS_ONCE_MORE, REPORTS_NEW_IDS, AssignedTopicNames
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataRequest, MetadataResponse, MetadataResponseTopic
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)

ORDERS, CLICKS = UUID(int=1).bytes, UUID(int=2).bytes


def assigned(*topic_ids: bytes) -> ConsumerGroupHeartbeatResponse:
    topics = [ConsumerGroupTopicPartitions(topic_id=each, partitions=[0]) for each in topic_ids]
    return ConsumerGroupHeartbeatResponse(
        member_epoch=1, heartbeat_interval_ms=5_000, assignment=ConsumerGroupAssignment(topic_partitions=topics)
    )


UNCHANGED = ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=5_000)


class Observed:
    """The member anna, who knows the name of one topic, at a time in milliseconds."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.paused: set[str] = set()
        self.names = AssignedTopicNames(lambda: self.now_ms, self.paused)
        self.names.add_member("anna")
        self.learn(ORDERS)

    def learn(self, topic_id: bytes, name: str = "orders") -> None:
        found = MetadataResponse(brokers=[], topics=[MetadataResponseTopic(name=name, topic_id=topic_id)])
        self.names.on_response("anna", MetadataRequest(topics=[]), found)

    def beat(self, response: Message | None, reported: bytes | None = None, epoch: int = 1) -> str | None:
        """The sentence that a heartbeat with this response violates; it reports partition 0 of a topic, or nothing."""
        owned = None if reported is None else [ConsumerGroupTopicPartitions(topic_id=reported, partitions=[0])]
        message = ConsumerGroupHeartbeatRequest(
            group_id="payments", member_id="a", member_epoch=epoch, topic_partitions=owned
        )
        violation = self.names.on_request("anna", message)
        self.names.on_response("anna", message, response)
        return violation.sentence if violation else None


@pytest.fixture
def anna() -> Observed:
    return Observed()


@pytest.mark.parametrize(("after_ms", "violated"), [(0, None), (2, None), (3, ASKS_ONCE_MORE)])
def test_the_heartbeat_after_the_names_comes_at_once(anna: Observed, after_ms: int, violated: str | None) -> None:
    assert anna.beat(assigned(ORDERS, CLICKS)) is None
    anna.now_ms += 400
    anna.learn(CLICKS)
    anna.now_ms += after_ms
    assert anna.beat(assigned(ORDERS, CLICKS)) is violated


@pytest.mark.parametrize("after_ms", [0, 5_000])
def test_only_the_first_heartbeat_after_the_first_names_comes_at_once(anna: Observed, after_ms: int) -> None:
    assert anna.beat(assigned(CLICKS)) is None
    anna.learn(CLICKS)
    anna.now_ms += after_ms
    anna.beat(UNCHANGED)
    anna.now_ms += 5_000
    assert anna.beat(UNCHANGED) is None
    anna.learn(ORDERS)
    anna.now_ms += 5_000
    assert anna.beat(UNCHANGED) is None


def test_what_a_former_process_is_assigned_does_not_count(anna: Observed) -> None:
    in_flight = ConsumerGroupHeartbeatRequest(group_id="payments", member_id="a", member_epoch=1)
    anna.names.on_request("anna", in_flight)
    anna.names.on_new_life("anna")
    anna.names.on_response("anna", in_flight, assigned(CLICKS))
    anna.learn(CLICKS)
    anna.now_ms += 5_000
    assert anna.beat(UNCHANGED) is None


def test_after_an_assignment_of_known_topics_a_heartbeat_comes_at_any_time(anna: Observed) -> None:
    assert anna.beat(assigned(ORDERS)) is None
    anna.learn(CLICKS)
    anna.now_ms += 5_000
    assert anna.beat(assigned(ORDERS)) is None


@pytest.mark.parametrize("response", [None, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)])
def test_a_member_that_has_lost_its_coordinator_looks_for_it_first(anna: Observed, response: Message | None) -> None:
    assert anna.beat(assigned(CLICKS)) is None
    assert anna.beat(response) is None
    anna.learn(CLICKS)
    anna.now_ms += 1_000
    assert anna.beat(assigned(CLICKS)) is None


def test_a_paused_member_sends_its_heartbeat_later(anna: Observed) -> None:
    assert anna.beat(assigned(CLICKS)) is None
    anna.paused.add("anna")
    anna.learn(CLICKS)
    anna.now_ms += 5_000
    assert anna.beat(assigned(CLICKS)) is None


def test_a_heartbeat_in_flight_is_awaited_first(anna: Observed) -> None:
    assert anna.beat(assigned(CLICKS)) is None
    in_flight = ConsumerGroupHeartbeatRequest(group_id="payments", member_id="a", member_epoch=1)
    anna.names.on_request("anna", in_flight)
    anna.learn(CLICKS)
    anna.now_ms += 500
    assert anna.beat(assigned(CLICKS)) is None


def test_a_new_process_is_not_asked_for_what_the_former_one_has_learnt(anna: Observed) -> None:
    assert anna.beat(assigned(CLICKS)) is None
    anna.names.on_new_life("anna")
    anna.learn(CLICKS)
    anna.now_ms += 5_000
    assert anna.beat(assigned(CLICKS)) is None


NEW_ORDERS = UUID(int=3).bytes


@pytest.mark.parametrize(
    ("reported", "epoch", "violated"),
    [
        (NEW_ORDERS, 1, None),
        (ORDERS, 1, REPORTS_NEW_IDS),
        (None, 1, REPORTS_NEW_IDS),
        (None, 0, None),
    ],
    ids=["new id", "former id", "nothing", "joins again"],
)
def test_partitions_of_a_topic_that_was_created_again_are_reported_with_the_next_heartbeat(
    anna: Observed, reported: bytes | None, epoch: int, violated: str | None
) -> None:
    anna.learn(NEW_ORDERS)
    assert anna.beat(assigned(ORDERS), ORDERS) is None
    assert anna.beat(assigned(NEW_ORDERS)) is None
    assert anna.beat(UNCHANGED, reported, epoch) is violated
    assert anna.beat(UNCHANGED) is None, "only the next heartbeat is checked"


def test_partitions_of_topics_whose_names_are_unknown_may_be_reported_later(anna: Observed) -> None:
    assert anna.beat(assigned(CLICKS), CLICKS) is None
    assert [anna.beat(assigned(NEW_ORDERS)) for _ in range(3)] == [None] * 3


def test_partitions_of_another_topic_may_be_reported_later(anna: Observed) -> None:
    anna.learn(CLICKS, "clicks")
    assert anna.beat(assigned(ORDERS), ORDERS) is None
    assert [anna.beat(assigned(CLICKS)) for _ in range(3)] == [None] * 3
