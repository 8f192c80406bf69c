"""What is wrong with a ConsumerGroupHeartbeat is found in Kafka's order: the request, the group, the member."""

from typing import Any

import pytest

from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.runtime.unavailable import unavailable_response
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import ConsumerHarness
from tests.coordinator.group_harness import behaviour

E = ErrorCode
JOIN: dict[str, Any] = {"rebalance_timeout_ms": 5_000, "owned": {}, "subscribed_topics": ("foo",)}

INVALID_REQUESTS = [
    pytest.param("", 0, JOIN, marks=behaviour("cg.val.member-id-empty-v1"), id="an empty member id since v1"),
    pytest.param(
        "",
        1,
        {"requires_member_id": False},
        marks=behaviour("cg.val.member-id-empty-v0-positive-epoch"),
        id="an empty member id with an epoch in v0",
    ),
    pytest.param(
        "",
        -1,
        {"requires_member_id": False},
        marks=behaviour("cg.val.member-id-empty-v0-leave"),
        id="an empty member id that leaves in v0",
    ),
    pytest.param("m", 0, {**JOIN, "group_id": ""}, marks=behaviour("cg.val.group-id-empty"), id="an empty group id"),
    pytest.param("m", 0, {**JOIN, "group_id": " "}, marks=behaviour("cg.val.group-id-blank"), id="a blank group id"),
    pytest.param("m", 0, {**JOIN, "rack_id": ""}, marks=behaviour("cg.val.rack-id-empty"), id="an empty rack id"),
    pytest.param("m", 0, {**JOIN, "instance_id": ""}, id="an empty instance id"),
    pytest.param(
        "m",
        0,
        {**JOIN, "rebalance_timeout_ms": -1},
        marks=behaviour("cg.val.join-without-rebalance-timeout"),
        id="a join without a rebalance timeout",
    ),
    pytest.param(
        "m", 0, {**JOIN, "owned": None}, marks=behaviour("cg.val.join-owned-null"), id="a join without owned partitions"
    ),
    pytest.param(
        "m",
        0,
        {**JOIN, "owned": {"foo": [0]}},
        marks=behaviour("cg.val.join-owned-nonempty"),
        id="a join that owns partitions",
    ),
    pytest.param(
        "m",
        0,
        {**JOIN, "subscribed_topics": None},
        marks=behaviour("cg.val.join-v0-without-names"),
        id="a join without a subscription",
    ),
    pytest.param("m", -2, {}, id="leaving for a while without an instance id"),
    pytest.param("m", -3, {}, id="an unknown negative epoch"),
]


@pytest.mark.parametrize(("member_id", "epoch", "fields"), INVALID_REQUESTS)
def test_an_invalid_request_is_refused_and_creates_no_group(member_id: str, epoch: int, fields: dict[str, Any]) -> None:
    harness = ConsumerHarness()
    answer = harness.beat(member_id, epoch, **fields)
    assert answer.code is E.INVALID_REQUEST
    assert answer.response.error_message
    assert not harness.group.exists


@behaviour("cg.val.member-id-empty-v0-static-leave")
def test_an_empty_member_id_that_goes_away_in_v0_is_looked_up_by_its_instance_id() -> None:
    answer = ConsumerHarness().one().beat("", -2, instance_id="i", requires_member_id=False)
    assert answer.code is E.UNKNOWN_MEMBER_ID


@behaviour("cg.val.join-names-empty", "cg.val.join-regex-empty-text")
@pytest.mark.parametrize("fields", [{"subscribed_topics": ()}, {"subscribed_topics": None, "subscribed_regex": ""}])
def test_an_empty_subscription_is_one_and_does_not_bump(fields: dict[str, Any]) -> None:
    harness = ConsumerHarness()
    answer = harness.beat("m", 0, **{**JOIN, **fields})
    assert (answer.code, answer.epoch, answer.assignment) == (E.NONE, 1, {})
    assert (harness.state_name, harness.epochs) == ("Stable", (1, 1))


@behaviour("cg.val.unknown-assignor")
def test_an_unknown_assignor_is_refused_with_the_supported_ones() -> None:
    answer = ConsumerHarness().beat("m", 0, **JOIN, server_assignor="nope")
    assert answer.code is E.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in answer.response.error_message


@behaviour("cg.val.unknown-assignor-when-leaving")
def test_an_unknown_assignor_is_refused_before_the_group_is_looked_for() -> None:
    assert ConsumerHarness().beat("m", -1, server_assignor="nope").code is E.UNSUPPORTED_ASSIGNOR


@behaviour("cg.val.rebalance-timeout-unbounded")
@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_a_rebalance_timeout_has_no_limits(timeout_ms: int) -> None:
    assert ConsumerHarness().beat("m", 0, **{**JOIN, "rebalance_timeout_ms": timeout_ms}).epoch == 2


@behaviour("cg.val.duplicate-topic-names")
def test_a_topic_that_is_named_twice_counts_once() -> None:
    answer = ConsumerHarness().join("m", "foo", "foo")
    assert answer.assignment == {"foo": [0, 1, 2, 3, 4, 5]}


@behaviour("cg.val.error-answer-shape", "cg.join.unknown-group-positive-epoch")
def test_a_refusal_carries_a_code_and_a_message_and_nothing_else() -> None:
    answer = ConsumerHarness().beat("m1", 100)
    assert answer.code is E.GROUP_ID_NOT_FOUND
    response = answer.response
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (None, 0, 0)
    assert response.assignment is None


@behaviour("cg.lim.full")
def test_a_full_group_takes_no_further_member() -> None:
    harness = ConsumerHarness(group_consumer_max_size=2).settled()
    assert harness.join("m3").code is E.GROUP_MAX_SIZE_REACHED
    assert harness.join("m2").code is E.NONE


@behaviour("cg.lim.full-checked-before-membership")
def test_a_full_group_refuses_a_stranger_before_it_looks_for_its_id() -> None:
    harness = ConsumerHarness(group_consumer_max_size=2).settled()
    assert harness.beat("zz", 3).code is E.GROUP_MAX_SIZE_REACHED


@behaviour("cg.lim.v0-without-id-in-full-group")
def test_a_full_group_takes_no_member_without_an_id() -> None:
    harness = ConsumerHarness(group_consumer_max_size=2).settled()
    answer = harness.join("", new_member_id="m3", requires_member_id=False)
    assert answer.code is E.GROUP_MAX_SIZE_REACHED


@behaviour("cg.val.coordinator-not-running", "cg.val.loading")
@pytest.mark.parametrize("code", [E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_coordinator_that_cannot_answer_says_so_unless_the_request_is_invalid(code: ErrorCode) -> None:
    valid, invalid = (
        ConsumerGroupHeartbeat(group_id="g", at_ms=0, member_id=member_id, member_epoch=1, topics=TopicsImage())
        for member_id in ("m", "")
    )
    refused: Any = unavailable_response(valid, code)
    assert (refused.error_code, refused.member_id, refused.assignment) == (code, None, None)
    wrong: Any = unavailable_response(invalid, code)
    assert wrong.error_code == E.INVALID_REQUEST


def test_a_subscription_beyond_a_batch_of_the_log_is_refused() -> None:
    harness = ConsumerHarness()
    names = [f"{number:0>50}" for number in range(21_000)]
    assert harness.join("m", *names).code is E.UNKNOWN_SERVER_ERROR
    assert not harness.group.exists
    assert harness.join("m", *names[:20_000]).code is E.NONE


def test_a_description_is_measured_in_bytes_of_utf_8() -> None:
    harness = ConsumerHarness()
    assert harness.join("m", "foo", rack_id="é" * 600_000).code is E.UNKNOWN_SERVER_ERROR
    assert harness.join("m", "foo", rack_id="e" * 600_000).code is E.NONE


def test_a_member_without_an_id_gets_the_new_one() -> None:
    answer = ConsumerHarness().join("", new_member_id="m3", requires_member_id=False)
    assert (answer.response.member_id, answer.epoch) == ("m3", 2)
