"""The simulated member of the consumer protocol sends what Apache Kafka's own consumer sends.

`java_heartbeats.jsonl` has the heartbeats of the Java consumer 4.4.0 with `group.protocol=consumer`, as
`regroup serve --record` kept them: the fields that a request had (partitions by their indexes), and its response. Each
kind of heartbeat is there once. The other facts of this file are from the same recording.
"""

import json
from pathlib import Path
from typing import Any

from regroup.members.consumer.consumer_protocol import ConsumerProtocolMachine, HeartbeatResult
from regroup.members.consumer.effects import PartitionsLost
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)

ORDERS = bytes(15) + b"\x01"
RECORDED = [
    json.loads(line) for line in (Path(__file__).parent / "java_heartbeats.jsonl").read_text("utf-8").splitlines()
]


def machine(**options: Any) -> ConsumerProtocolMachine:
    made = ConsumerProtocolMachine("g", "m", () if "pattern" in options else ("orders",), 300_000, **options)
    made.learn_topics({ORDERS: "orders"})
    return made


def fields(request: ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
    """The fields of a request that are not left out, without those that every request has."""
    owned = request.topic_partitions
    found = {
        "member_epoch": request.member_epoch,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "subscribed_topic_names": request.subscribed_topic_names,
        "subscribed_topic_regex": request.subscribed_topic_regex,
        "topic_partitions": None if owned is None else [index for each in owned for index in each.partitions],
    }
    return {name: value for name, value in found.items() if value is not None}


def answer(member_epoch: int = 0, assignment: list[int] | None = None, error_code: int = 0) -> Any:
    given = None
    if assignment is not None:
        topic = ConsumerGroupTopicPartitions(topic_id=ORDERS, partitions=assignment)
        given = ConsumerGroupAssignment(topic_partitions=[topic] if assignment else [])
    return ConsumerGroupHeartbeatResponse(error_code=error_code, member_epoch=member_epoch, assignment=given)


def test_each_heartbeat_has_the_fields_of_the_java_consumer() -> None:
    member, sent = machine(), []
    for recorded in RECORDED:
        if recorded["what"].startswith("has"):
            member.reconcile()
        request = member.leave()[0] if recorded["what"] == "is closed" else member.heartbeat()
        sent.append(fields(request))
        if member.on_response(answer(**recorded["response"])) is HeartbeatResult.FENCED:
            assert isinstance(member.lose(), PartitionsLost)
    assert sent == [each["request"] for each in RECORDED]


def test_an_empty_first_assignment_is_acknowledged() -> None:
    member = machine()
    member.heartbeat()
    member.on_response(answer(3, []))
    assert fields(member.heartbeat()) == {"member_epoch": 3, "topic_partitions": []}
    member.on_response(answer(3))
    assert fields(member.heartbeat()) == {"member_epoch": 3}


def test_a_member_beyond_its_poll_timeout_leaves_without_unsubscribing() -> None:
    member = machine()
    member.heartbeat()
    member.on_response(answer(8, [0]))
    member.reconcile()
    assert fields(member.last_heartbeat()) == {"member_epoch": -1, "topic_partitions": []}


def test_a_static_member_leaves_with_epoch_minus_two_and_names_its_instance_id_always() -> None:
    member = machine(instance_id="d-1")
    joined = member.heartbeat()
    member.on_response(answer(12, [0]))
    left, _ = member.leave()
    assert (joined.instance_id, left.instance_id) == ("d-1", "d-1")
    assert fields(left) == {"member_epoch": -2, "subscribed_topic_names": [], "topic_partitions": []}


def test_after_a_lost_response_everything_is_said_again_with_the_epoch_that_is_known() -> None:
    member = machine()
    member.heartbeat()
    member.on_response(answer(2, [0, 1]))
    member.reconcile()
    member.heartbeat()
    member.repeat_everything()
    expected = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": ["orders"], "topic_partitions": [0, 1]}
    assert fields(member.heartbeat()) == {"member_epoch": 2, **expected}


def test_a_member_that_subscribes_by_pattern_names_no_topics() -> None:
    member = machine(pattern="ord.*")
    request = member.heartbeat()
    expected = {"subscribed_topic_names": [], "subscribed_topic_regex": "ord.*", "topic_partitions": []}
    assert fields(request) == {"member_epoch": 0, "rebalance_timeout_ms": 300_000, **expected}
    member.on_response(answer(1, []))
    assert fields(member.heartbeat()) == {"member_epoch": 1, "topic_partitions": []}
    left, _ = member.leave()
    assert fields(left) == {"member_epoch": -1, "subscribed_topic_regex": "", "topic_partitions": []}
