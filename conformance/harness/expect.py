"""Expectations of a story: each one raises ExpectationFailed with the expected and the actual value."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from regroup.conformance.harness.remedy import Remedy
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages.group import LeaveGroupResponse
from regroup.protocol.messages.offsets import OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponse
from regroup.protocol.messages.transactions import TxnOffsetCommitResponse

PartitionKey = tuple[str, int]
"""Topic and partition index."""

TIMER_TOLERANCE_S = 4.0
"""The time by which a timer may be late; those of a busy broker are late, never early."""


class ExpectationFailed(Exception):
    """The broker does something else than Kafka; the text says what was expected and what it did."""


class NotObservable(Exception):
    """This broker, or its settings, cannot show the behaviour; the text says why, and the remedy what would show it."""

    def __init__(self, reason: str, remedy: Remedy | None = None) -> None:
        super().__init__(reason)
        self.remedy = remedy


def expect_equal(what: str, expected: object, actual: object) -> None:
    """Both values are equal."""
    if actual != expected:
        raise ExpectationFailed(f"{what}: expected {expected!r}, got {actual!r}")


def expect_one_of(what: str, expected: Collection[object], actual: object) -> None:
    """The value is one of several, where Kafka leaves the choice open."""
    if actual not in expected:
        raise ExpectationFailed(f"{what}: expected one of {', '.join(map(repr, expected))}, got {actual!r}")


def expect_true(condition: bool, failure: str) -> None:
    """The condition holds; `failure` is the text of the exception."""
    if not condition:
        raise ExpectationFailed(failure)


def expect_duration(what: str, duration_s: float, at_least_s: float, at_most_s: float | None = None) -> None:
    """The duration is within its bounds; without `at_most_s` it is `at_least_s`, apart from late timers."""
    in_time = at_least_s - 0.05 <= duration_s <= (at_most_s or at_least_s) + TIMER_TOLERANCE_S
    expect_true(in_time, f"{what} took {duration_s:.2f} s instead of {at_least_s:.2f} s")


def expect(response: Structure, error: int | None = None, **fields: object) -> None:
    """The response has these values in its fields; `error` is its `error_code`, shown with its name."""
    name = type(response).__name__
    if error is not None:
        expect_error(f"{name}.error_code", error, response.error_code)  # type: ignore[attr-defined]  # the caller knows
    for field, expected in fields.items():
        expect_equal(f"{name}.{field}", expected, getattr(response, field))


def expect_error(what: str, expected: int, actual: int) -> None:
    """Two error codes are equal; they are shown with their names."""
    if actual != expected:
        raise ExpectationFailed(f"{what}: expected {_code(expected)}, got {_code(actual)}")


def expect_partition_errors(response: Message, expected: Mapping[PartitionKey, int]) -> None:
    """The response has exactly these partitions, in any order, with these error codes."""
    actual = _partition_errors(response)
    if actual != dict(expected):
        raise ExpectationFailed(f"{type(response).__name__}: expected {_codes(expected)}, got {_codes(actual)}")


def expect_every_partition(response: Message, error: int) -> None:
    """The response has at least one partition, and each has this error code."""
    actual = _partition_errors(response)
    expect_true(bool(actual), f"{type(response).__name__} has no partitions")
    expect_partition_errors(response, dict.fromkeys(actual, error))


def expect_member_errors(response: LeaveGroupResponse, *errors: int) -> None:
    """A LeaveGroup of v3 or later succeeds as a whole, and its members have these error codes, in this order."""
    expect(response, error=ErrorCode.NONE)
    expected, actual = map(_code, errors), (_code(member.error_code) for member in response.members)
    expect_equal("error codes of the leaving members", [*expected], [*actual])


def _partition_errors(response: Message) -> dict[PartitionKey, int]:
    assert isinstance(response, OffsetCommitResponse | OffsetDeleteResponse | TxnOffsetCommitResponse)
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


class FetchedOffset(NamedTuple):
    """The part of an OffsetFetch response for one partition; offset -1 means that none is committed."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    error: int = 0

    def __repr__(self) -> str:
        return repr(tuple(self))


def fetched_offsets(response: OffsetFetchResponse) -> dict[PartitionKey, FetchedOffset]:
    """The offsets in a response of any version; those of the first group if there are several."""
    topics: list[Any] = [*(response.groups[0].topics if response.groups else response.topics)]
    return {
        (topic.name, each.partition_index): FetchedOffset(
            each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code
        )
        for topic in topics
        for each in topic.partitions
    }


def group_error(response: OffsetFetchResponse) -> int:
    """The error code of the (first) group; up to v7 it is that of the whole response."""
    return response.groups[0].error_code if response.groups else response.error_code


def _code(code: int) -> str:
    return f"{code} {ErrorCode.name_of(code)}" if code else "0"


def _codes(codes: Mapping[PartitionKey, int]) -> str:
    return "{" + ", ".join(f"{topic}-{number}: {_code(code)}" for (topic, number), code in sorted(codes.items())) + "}"
