"""A response says something of each member and each partition of its request."""

from typing import Any

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group
from regroup.lab.checker.responses.requested_parts import a_response_names_what_was_requested
from regroup.protocol.messages.group import LeaveGroupResponse, MemberResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.lab.checker.made_exchanges import checker_state, made_exchange

NAMED: dict[str, Any] = {"group_id": "payments", "at_ms": 0}
ANNA = c.LeavingMember(member_id="anna")
BEN = c.LeavingMember(member_id="", group_instance_id="ben-1")


def violation(command: c.Command, response: Any) -> str | None:
    exchange = made_exchange(command, Group(group_id="payments"), response=response)
    return a_response_names_what_was_requested(checker_state(), exchange)


def left(*members: c.LeavingMember, code: int = 0) -> LeaveGroupResponse:
    rows = [MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id) for each in members]
    return LeaveGroupResponse(error_code=code, members=rows)


def committed(*partitions: int) -> OffsetCommitResponse:
    rows = [OffsetCommitResponsePartition(partition_index=each) for each in partitions]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=rows)])


def fetched(*partitions: int) -> OffsetFetchResponseGroup:
    rows = [OffsetFetchResponsePartitions(partition_index=each, committed_offset=1) for each in partitions]
    topics = [OffsetFetchResponseTopics(name="orders", partitions=rows)]
    return OffsetFetchResponseGroup(group_id="payments", topics=topics)


LEAVE = c.LeaveGroup(**NAMED, members=(ANNA, BEN))
COMMIT = c.OffsetCommit(**NAMED, offsets=(c.RequestedOffset("orders", 0, 5), c.RequestedOffset("orders", 1, 6)))
FETCH = c.OffsetFetch(**NAMED, partitions={"orders": (0, 1)})


@pytest.mark.parametrize(
    ("command", "response"),
    [(LEAVE, left(ANNA)), (LEAVE, left()), (COMMIT, committed(0)), (FETCH, fetched(1))],
)
def test_a_member_or_partition_that_is_left_out_is_found(command: c.Command, response: Any) -> None:
    assert "leaves out" in (violation(command, response) or "")


@pytest.mark.parametrize(
    ("command", "response"),
    [(LEAVE, left(ANNA, BEN, ANNA)), (COMMIT, committed(0, 1, 2)), (FETCH, fetched(0, 1, 1))],
)
def test_an_entry_that_was_not_requested_is_found(command: c.Command, response: Any) -> None:
    assert "beside what was requested" in (violation(command, response) or "")


@pytest.mark.parametrize(
    ("command", "response"),
    [
        (LEAVE, left(ANNA, BEN)),
        (LEAVE, left(code=24)),
        (COMMIT, committed(0, 1)),
        (FETCH, fetched(1, 0)),
        (c.OffsetFetch(**NAMED, partitions=None), fetched(7)),
    ],
)
def test_whole_responses_and_refusals_are_in_order(command: c.Command, response: Any) -> None:
    assert violation(command, response) is None
