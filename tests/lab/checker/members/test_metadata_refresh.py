"""When a classic member repeats a Metadata request: at the latest after 100 ms, doubled each time up to a second."""

from typing import Any

import pytest

from regroup.lab.checker.members.metadata_refresh import REPEATS_IN_TIME, MetadataRefresh
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from regroup.protocol.messages.group import HeartbeatRequest

MISSING = MetadataResponse(
    brokers=[], topics=[MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="orders")]
)


def found(partitions: int) -> MetadataResponseTopic:
    made = [
        MetadataResponsePartition(partition_index=each, leader_id=0, replica_nodes=[0], isr_nodes=[0])
        for each in range(partitions)
    ]
    return MetadataResponseTopic(name="clicks", partitions=made)


class Observed:
    """The member anna at a time in milliseconds, which its requests take none of."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.paused: set[str] = set()
        self.refresh = MetadataRefresh(lambda: self.now_ms, self.paused)
        self.refresh.add_member("anna")

    def ask(self, after_ms: int, response: Any) -> str | None:
        """The sentence that a Metadata request violates which is sent so many milliseconds after the last one."""
        self.now_ms += after_ms
        message = MetadataRequest(topics=[])
        violation = self.refresh.on_request("anna", message)
        self.refresh.on_response("anna", message, response)
        return violation.sentence if violation else None


@pytest.fixture
def anna() -> Observed:
    return Observed()


@pytest.mark.parametrize("response", [None, MISSING])
def test_each_time_in_a_row_a_member_may_wait_twice_as_long_up_to_a_second(anna: Observed, response: Any) -> None:
    asked = [anna.ask(each, response) for each in (0, 100, 200, 400, 800, 1_000, 1_000)]
    assert asked == [None] * 7
    assert anna.ask(1_003, response) == REPEATS_IN_TIME


@pytest.mark.parametrize("response", [None, MISSING])
def test_a_request_that_comes_too_late_is_a_violation(anna: Observed, response: Any) -> None:
    assert anna.ask(0, response) is None
    assert anna.ask(200, response) == REPEATS_IN_TIME


def test_after_a_response_with_all_topics_a_member_may_ask_at_any_time(anna: Observed) -> None:
    asked = [anna.ask(each, MetadataResponse(brokers=[], topics=[found(1)])) for each in (0, 300_000)]
    assert asked == [None, None]


def test_a_response_ends_the_row_of_failures(anna: Observed) -> None:
    assert [anna.ask(each, None) for each in (0, 100)] == [None, None]
    assert anna.ask(200, MISSING) is None
    assert anna.ask(104, MISSING) == REPEATS_IN_TIME


def test_a_response_with_new_partitions_ends_the_row_of_those_without(anna: Observed) -> None:
    with_news = MetadataResponse(brokers=[], topics=[*MISSING.topics, found(2)])
    assert [anna.ask(each, MISSING) for each in (0, 100)] == [None, None]
    assert anna.ask(200, with_news) is None
    assert anna.ask(104, with_news) == REPEATS_IN_TIME


def test_an_application_outside_poll_repeats_nothing_until_it_is_back(anna: Observed) -> None:
    assert anna.ask(0, None) is None
    anna.refresh.on_interruption("anna", 5_000)
    assert [anna.ask(each, None) for each in (4_000, 1_000)] == [None, None]
    assert anna.ask(1_000, MetadataResponse(brokers=[], topics=[found(1)])) is None
    assert [anna.ask(each, None) for each in (0, 200)] == [None, REPEATS_IN_TIME]


def test_two_interruptions_come_one_after_the_other(anna: Observed) -> None:
    anna.refresh.on_interruption("anna", 5_000)
    anna.refresh.on_interruption("anna", 4_000)
    assert anna.ask(8_000, None) is None
    assert anna.ask(1_000, None) is None


def test_what_comes_in_a_pause_is_repeated_at_any_time(anna: Observed) -> None:
    anna.paused.add("anna")
    assert [anna.ask(each, None) for each in (0, 5_000)] == [None, None]


@pytest.mark.parametrize("is_late", [True, False])
def test_after_a_response_that_may_have_come_too_late_the_count_begins_with_the_next_success(
    anna: Observed, *, is_late: bool
) -> None:
    all_topics, message = MetadataResponse(brokers=[], topics=[found(1)]), MetadataRequest(topics=[])
    assert [anna.ask(each, None) for each in (0, 100)] == [None, None]
    anna.now_ms += 200
    assert anna.refresh.on_request("anna", message) is None
    anna.paused.update(["anna"] * (not is_late))
    anna.now_ms += 6_000 if is_late else 1_000
    anna.refresh.on_response("anna", message, all_topics)
    anna.paused.clear()
    assert [anna.ask(each, None) for each in (0, 800)] == [None, None], "four failures, if it was one"
    assert [anna.ask(each, all_topics) for each in (1_000, 0)] == [None, None]
    assert [anna.ask(each, None) for each in (0, 200)] == [None, REPEATS_IN_TIME]


def test_failures_and_responses_without_news_are_not_added(anna: Observed) -> None:
    assert [anna.ask(each, MISSING) for each in (0, 100)] == [None, None]
    assert anna.ask(200, None) is None
    assert anna.ask(204, MISSING) == REPEATS_IN_TIME


def test_a_topic_that_may_not_be_read_is_not_asked_for_again(anna: Observed) -> None:
    refused = MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name="orders")
    assert anna.ask(0, MetadataResponse(brokers=[], topics=[refused])) is None
    assert anna.ask(5_000, None) is None


def test_partitions_that_were_there_before_are_no_news(anna: Observed) -> None:
    with_news = MetadataResponse(brokers=[], topics=[*MISSING.topics, found(2)])
    assert [anna.ask(each, with_news) for each in (0, 100)] == [None, None]
    assert [anna.ask(each, MISSING) for each in (100, 200)] == [None, None]
    assert anna.ask(400, with_news) is None
    assert anna.ask(800, with_news) is None


def test_a_new_process_knows_nothing_of_the_requests_of_the_former_one(anna: Observed) -> None:
    message = MetadataRequest(topics=[])
    anna.refresh.on_request("anna", message)
    anna.refresh.on_new_life("anna")
    anna.refresh.on_response("anna", message, None)
    assert anna.ask(5_000, None) is None


def test_other_requests_and_members_do_not_count(anna: Observed) -> None:
    assert anna.ask(0, None) is None
    anna.now_ms += 5_000
    assert anna.refresh.on_request("anna", HeartbeatRequest(group_id="g", generation_id=1, member_id="a")) is None
    assert anna.refresh.on_request("ben", MetadataRequest(topics=[])) is None


def test_a_request_that_fails_late_has_failed_all_the_same(anna: Observed) -> None:
    message = MetadataRequest(topics=[])
    anna.refresh.on_request("anna", message)
    anna.now_ms += 30_000
    anna.refresh.on_response("anna", message, None)
    assert anna.ask(103, MISSING) == REPEATS_IN_TIME
