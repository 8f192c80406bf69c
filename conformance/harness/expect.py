"""Expectations of a story: functions that raise ExpectationFailed with the expected and the actual value."""

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
"""Seconds by which a timer of the broker may be late. Timers of a busy broker are late, never early."""


class ExpectationFailed(Exception):
    """Raised if the broker does not behave as Kafka does; the text says what was expected and what was found."""


class NotObservable(Exception):
    """Raised if this broker, or its settings, cannot show the behaviour.

    The text says why; `remedy` says with which settings or options it could be shown.
    """

    def __init__(self, reason: str, remedy: Remedy | None = None) -> None:
        super().__init__(reason)
        self.remedy = remedy


def expect_equal(what: str, expected: object, actual: object) -> None:
    """Check that both values are equal; raises ExpectationFailed, whose text names the value by `what`."""
    if actual != expected:
        raise ExpectationFailed(f"{what}: expected {expected!r}, got {actual!r}")


def expect_one_of(what: str, expected: Collection[object], actual: object) -> None:
    """Check that the value is one of several, where Kafka leaves the choice open."""
    if actual not in expected:
        raise ExpectationFailed(f"{what}: expected one of {', '.join(map(repr, expected))}, got {actual!r}")


def expect_true(condition: bool, failure: str) -> None:
    """Check that the condition holds; `failure` is the text of the exception."""
    if not condition:
        raise ExpectationFailed(failure)


def expect_duration(what: str, duration_s: float, at_least_s: float, at_most_s: float | None = None) -> None:
    """Check that a duration is within its bounds, in seconds; a timer may be late by `TIMER_TOLERANCE_S`.

    Without `at_most_s` both bounds are `at_least_s`.
    """
    in_time = at_least_s - 0.05 <= duration_s <= (at_most_s or at_least_s) + TIMER_TOLERANCE_S
    expect_true(in_time, f"{what} took {duration_s:.2f} s instead of {at_least_s:.2f} s")


def expect(response: Structure, error: int | None = None, **fields: object) -> None:
    """Check that the response has these values in its fields; `error` is its `error_code`, shown with its name."""
    name = type(response).__name__
    if error is not None:
        expect_error(f"{name}.error_code", error, response.error_code)  # type: ignore[attr-defined]  # the caller knows
    for field, expected in fields.items():
        expect_equal(f"{name}.{field}", expected, getattr(response, field))


def expect_error(what: str, expected: int, actual: int) -> None:
    """Check that two error codes are equal; a failure shows them with their names."""
    if actual != expected:
        raise ExpectationFailed(f"{what}: expected {_code(expected)}, got {_code(actual)}")


def expect_partition_errors(response: Message, expected: Mapping[PartitionKey, int]) -> None:
    """Check that the response has exactly these partitions, in any order, with these error codes."""
    actual = _partition_errors(response)
    if actual != dict(expected):
        raise ExpectationFailed(f"{type(response).__name__}: expected {_codes(expected)}, got {_codes(actual)}")


def expect_every_partition(response: Message, error: int) -> None:
    """Check that the response has at least one partition, and that each has this error code."""
    actual = _partition_errors(response)
    expect_true(bool(actual), f"{type(response).__name__} has no partitions")
    expect_partition_errors(response, dict.fromkeys(actual, error))


def expect_member_errors(response: LeaveGroupResponse, *errors: int) -> None:
    """Check the response to a LeaveGroup of v3 or later.

    It has no error as a whole, and its members have these error codes, in this order.
    """
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
    """The part of an OffsetFetch response for one partition. Offset -1 means that no offset is committed."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    error: int = 0

    def __repr__(self) -> str:
        return repr(tuple(self))


def fetched_offsets(response: OffsetFetchResponse) -> dict[PartitionKey, FetchedOffset]:
    """The offsets in an OffsetFetch response of any version. If it has several groups, they are those of the first."""
    topics: list[Any] = [*(response.groups[0].topics if response.groups else response.topics)]
    return {
        (topic.name, each.partition_index): FetchedOffset(
            each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code
        )
        for topic in topics
        for each in topic.partitions
    }


def group_error(response: OffsetFetchResponse) -> int:
    """The error code of the first group in an OffsetFetch response; up to v7, that of the whole response."""
    return response.groups[0].error_code if response.groups else response.error_code


def _code(code: int) -> str:
    return f"{code} {ErrorCode.name_of(code)}" if code else "0"


def _codes(codes: Mapping[PartitionKey, int]) -> str:
    return "{" + ", ".join(f"{topic}-{number}: {_code(code)}" for (topic, number), code in sorted(codes.items())) + "}"
