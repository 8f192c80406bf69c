"""Error codes in responses that have one for each partition."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group
from regroup.lab.checker.coordinator_invariants import a_removed_member_does_not_commit
from regroup.lab.checker.exchanges import first_error_code, refusal_code
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import Coordinator, FindCoordinatorResponse
from regroup.protocol.messages.group import HeartbeatResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.lab.checker.made_exchanges import checker_state, made_exchange

TOO_LARGE, UNKNOWN = ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.UNKNOWN_MEMBER_ID


def commit_response(*codes: int) -> OffsetCommitResponse:
    rows = [OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in enumerate(codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=rows)])


@pytest.mark.parametrize(
    "response",
    [
        HeartbeatResponse(error_code=UNKNOWN),
        commit_response(0, UNKNOWN, TOO_LARGE),
        OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="lab", error_code=UNKNOWN)]),
        FindCoordinatorResponse(
            coordinators=[Coordinator(key="lab", node_id=-1, host="", port=-1, error_code=UNKNOWN)]
        ),
    ],
    ids=lambda response: type(response).__name__,
)
def test_the_first_error_of_a_response_may_be_that_of_a_part(response: Message) -> None:
    assert first_error_code(response) == UNKNOWN


def test_a_commit_with_an_accepted_partition_is_not_refused() -> None:
    assert first_error_code(commit_response(0, 0)) == 0
    assert refusal_code(commit_response(TOO_LARGE, 0)) == 0
    assert refusal_code(commit_response(TOO_LARGE, UNKNOWN)) == TOO_LARGE
    assert refusal_code(commit_response()) == 0


def test_a_commit_of_a_removed_member_is_found_by_any_accepted_partition() -> None:
    offsets = (c.RequestedOffset("orders", 0, 7, metadata="long"), c.RequestedOffset("orders", 1, 7))
    command = c.OffsetCommit(group_id="lab", at_ms=0, member_id="anna", generation_id=1, offsets=offsets)
    exchange = made_exchange(command, Group(group_id="lab"), response=commit_response(TOO_LARGE, 0))
    assert a_removed_member_does_not_commit(checker_state(), exchange) == "anna is not one of the members []"
