"""A member takes the committed offsets that responses to its OffsetFetch had."""

import pytest

from regroup.lab.checker.members.records.fetched_offsets import TAKES_WHAT_IT_GOT, FetchedOffsets
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.offsets import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

ORDERS_0 = TopicPartition("orders", 0)


def since_v8(offset: int, error_code: int = 0, group_error: int = 0) -> OffsetFetchResponse:
    row = OffsetFetchResponsePartitions(partition_index=0, committed_offset=offset, error_code=error_code)
    topic = OffsetFetchResponseTopics(name="orders", partitions=[row])
    return OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id="payments", topics=[topic], error_code=group_error)]
    )


def up_to_v7(offset: int, error_code: int = 0) -> OffsetFetchResponse:
    row = OffsetFetchResponsePartition(partition_index=0, committed_offset=offset)
    return OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic(name="orders", partitions=[row])], error_code=error_code
    )


def is_violated(response: OffsetFetchResponse | None, taken: int | None) -> bool:
    fetched = FetchedOffsets()
    fetched.on_response("anna", response)
    violation = fetched.on_fetched("anna", {ORDERS_0: taken})
    return violation is not None and violation.sentence == TAKES_WHAT_IT_GOT


@pytest.mark.parametrize("response_of", [since_v8, up_to_v7])
def test_a_member_takes_the_offset_that_it_got(response_of: type[OffsetFetchResponse]) -> None:
    assert not is_violated(response_of(17), 17)
    assert is_violated(response_of(17), 16)
    assert is_violated(response_of(17), None)
    assert not is_violated(response_of(-1), None)
    assert is_violated(response_of(-1), 0)


@pytest.mark.parametrize(
    "response",
    [
        None,
        since_v8(-1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT),
        since_v8(-1, group_error=ErrorCode.STALE_MEMBER_EPOCH),
        up_to_v7(-1, error_code=ErrorCode.NOT_COORDINATOR),
    ],
    ids=["no-response", "refused-partition", "refused-group", "refused-before-v8"],
)
def test_a_refusal_does_not_say_that_nothing_is_committed(response: OffsetFetchResponse | None) -> None:
    assert is_violated(response, None)


def test_a_response_is_taken_once() -> None:
    fetched = FetchedOffsets()
    fetched.on_response("anna", since_v8(17))
    assert fetched.on_fetched("anna", {ORDERS_0: 17}) is None
    violation = fetched.on_fetched("anna", {ORDERS_0: 17})
    assert violation is not None
    assert violation.detail == "anna takes the committed offset 17 of orders-0, and no response had one"


def test_a_new_process_has_got_nothing() -> None:
    fetched = FetchedOffsets()
    fetched.on_response("anna", since_v8(17))
    fetched.on_new_life("anna")
    assert fetched.on_fetched("anna", {ORDERS_0: 17})
