"""What classic members in groups of the consumer protocol get is judged by the lab's own hash map."""

from types import SimpleNamespace
from typing import Any

import pytest

from regroup.coordinator.commands import SyncGroup
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.topics import TopicMetadata, TopicsImage
from regroup.lab.checker.consumer.classic_members import topics_are_synced_in_the_order_of_their_ids
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, encode_assignment
from regroup.protocol.messages.group import SyncGroupResponse
from regroup.protocol.topic_ids import topic_id_text


def topic_id(*words: int) -> str:
    return topic_id_text(b"".join(each.to_bytes(4, "big") for each in words))


TOPICS = TopicsImage(
    [
        TopicMetadata(topic_id(0x10, 0x20, 0x30, 0x02), "two", 3),
        TopicMetadata(topic_id(1 << 16, 0, 0, 0x04), "five", 3),
        TopicMetadata(topic_id(0, 9, 0, 0), "nine", 3),
    ]
)


def found(*names: str, is_consumer: bool = True) -> str | None:
    """What is found if a member gets partition 0 of these topics in this order."""
    command = SyncGroup(group_id="g", at_ms=0, generation_id=1, member_id="anna", topics=TOPICS)
    assignment = encode_assignment(Assignment(3, tuple(TopicPartition(each, 0) for each in names)))
    group = SimpleNamespace(stored=SimpleNamespace(is_consumer=is_consumer))
    groups: Any = SimpleNamespace(group=lambda group_id: group)
    response = SyncGroupResponse(assignment=assignment)
    exchange: Any = SimpleNamespace(group_id="g", command=command, response=response, error_code=0)
    return topics_are_synced_in_the_order_of_their_ids(groups, exchange, CoordinatorSettings())


@pytest.mark.parametrize("names", [(), ("nine",), ("two", "five", "nine"), ("two", "nine"), ("nine", "unknown")])
def test_topics_in_the_order_of_their_buckets_are_in_order(names: tuple[str, ...]) -> None:
    assert found(*names) is None


def test_topics_in_another_order_are_found() -> None:
    assert found("nine", "two") == "anna gets the topics nine, two in the buckets [9, 2]"
    assert found("two", "nine", "five")
    assert found("nine", "two", is_consumer=False) is None
