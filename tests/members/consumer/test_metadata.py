"""A member requests metadata again after a backoff that grows, as the `Metadata` of the Java client does (KIP-580)."""

from collections.abc import Callable

from regroup.members.consumer.inputs import Poll, Subscribe
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.members.harness import MemberHarness

METADATA_MAX_AGE_MS = 300_000


def polled(topic: str = "orders") -> MemberHarness:
    member = MemberHarness()
    member.receive(Subscribe((topic,)))
    member.receive(Poll())
    return member


def fail(member: MemberHarness) -> None:
    member.fail_request(MetadataRequest)


def miss_the_topic(member: MemberHarness, partitions: int = 0) -> None:
    """Answer that the topic is not known, and that another one has so many partitions, if it has any."""
    found = [
        MetadataResponsePartition(partition_index=each, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for each in range(partitions)
    ]
    missing = MetadataResponseTopic(name="orders", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    respond(member, missing, *([MetadataResponseTopic(name="clicks", partitions=found)] if found else []))


def respond(member: MemberHarness, *topics: MetadataResponseTopic) -> None:
    broker = MetadataResponseBroker(node_id=1, host="broker", port=9092)
    member.respond(MetadataRequest, MetadataResponse(brokers=[broker], topics=list(topics)))


def pause_ms(member: MemberHarness) -> int:
    """Let time pass until the member requests metadata again; returns for how long it has waited, in steps of 100."""
    begun_ms = member.now_ms
    while "Metadata" not in member.open_request_names():
        member.pass_time(100)
    return member.now_ms - begun_ms


def pauses_ms(member: MemberHarness, answer: Callable[[MemberHarness], None], count: int) -> list[int]:
    pauses: list[int] = []
    for _ in range(count):
        answer(member)
        pauses.append(pause_ms(member))
    return pauses


def test_the_pause_after_a_failed_request_doubles_from_retry_backoff_ms_up_to_its_maximum() -> None:
    assert pauses_ms(polled(), fail, 6) == [100, 200, 400, 800, 1_000, 1_000]


def test_the_pause_before_a_missing_topic_is_requested_again_doubles_too() -> None:
    assert pauses_ms(polled(), miss_the_topic, 6) == [100, 200, 400, 800, 1_000, 1_000]


def test_a_response_ends_the_backoff_of_failed_requests() -> None:
    member = polled()
    assert pauses_ms(member, fail, 3) == [100, 200, 400]
    assert pauses_ms(member, miss_the_topic, 2) == [100, 200]


def test_a_response_that_brings_something_new_ends_the_backoff_of_a_missing_topic() -> None:
    member = polled()
    assert pauses_ms(member, miss_the_topic, 3) == [100, 200, 400]
    miss_the_topic(member, partitions=2)
    assert pause_ms(member) == 100


def test_a_topic_that_is_found_ends_its_backoff() -> None:
    member = polled()
    assert pauses_ms(member, miss_the_topic, 3) == [100, 200, 400]
    found = [MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])]
    respond(member, MetadataResponseTopic(name="orders", partitions=found))
    member.pass_time(METADATA_MAX_AGE_MS - 1)
    assert "Metadata" not in member.open_request_names()
    member.pass_time(1)
    assert pauses_ms(member, miss_the_topic, 2) == [100, 200]


def test_a_new_subscription_ends_the_backoff_of_a_missing_topic() -> None:
    member = polled()
    assert pauses_ms(member, miss_the_topic, 3) == [100, 200, 400]
    miss_the_topic(member)
    member.receive(Subscribe(("orders", "bills")))
    assert "Metadata" in member.open_request_names()
    assert pauses_ms(member, miss_the_topic, 2) == [100, 200]


def test_a_new_subscription_ends_the_backoff_of_failed_requests_and_the_same_one_does_not() -> None:
    member = polled()
    fail(member)
    member.receive(Subscribe(("orders",)))
    assert pause_ms(member) == 100
    fail(member)
    member.receive(Subscribe(("clicks", "orders")))
    assert pause_ms(member) == 0
