"""What a story expects, and how it says that something else came."""

from collections.abc import Mapping
from typing import Any

from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages.group import LeaveGroupResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from regroup.protocol.messages.transactions import TxnOffsetCommitResponse

Partition = tuple[str, int]
"""Topic and number."""


TICK_SECONDS = 0.4
"""Timers of a busy broker are late, never early: what must last a second may last this much longer."""


class Differs(Exception):
    """The broker did something else than Kafka does; the text says what was expected and what came."""


class NotObservable(Exception):
    """This broker, or this way of asking, cannot show the behaviour; the text says why."""


def same(what: str, wanted: object, came: object) -> None:
    """Differs unless both are equal."""
    if came != wanted:
        raise Differs(f"{what}: expected {wanted!r}, came {came!r}")


def one_of(what: str, wanted: tuple[object, ...], came: object) -> None:
    """For choices that Kafka leaves open."""
    if came not in wanted:
        raise Differs(f"{what}: expected one of {', '.join(map(repr, wanted))}, came {came!r}")


def that(fact: bool, what_is_wrong: str) -> None:
    """Differs with these words unless the fact holds."""
    if not fact:
        raise Differs(what_is_wrong)


def took(what: str, seconds: float, at_least: float, at_most: float) -> None:
    """A duration between two bounds, where a busy machine may be late."""
    that(
        at_least - 0.05 <= seconds <= at_most + 10 * TICK_SECONDS, f"{what} took {seconds:.2f} s, not {at_least:.2f} s"
    )


def expect(answer: Structure, error: int | None = None, **fields: object) -> None:
    """The answer has these values in its fields; `error` stands for `error_code` and is shown by name."""
    if error is not None:
        code_is(f"{_name(answer)}.error_code", error, answer.error_code)  # type: ignore[attr-defined]  # by duck
    for field, wanted in fields.items():
        same(f"{_name(answer)}.{field}", wanted, getattr(answer, field))


def code_is(what: str, wanted: int, came: int) -> None:
    """Two error codes, shown by their names."""
    if came != wanted:
        raise Differs(f"{what}: expected {_code(wanted)}, came {_code(came)}")


def codes_are(answer: Message, wanted: Mapping[Partition, int]) -> None:
    """An answer with a code for each partition: these partitions, in any order, with these codes."""
    came = partition_codes(answer)
    if came != dict(wanted):
        raise Differs(f"{_name(answer)}: expected {_codes(wanted)}, came {_codes(came)}")


def every_partition(answer: Message, error: int) -> None:
    """Each partition of the answer has this code, and there is at least one."""
    came = partition_codes(answer)
    that(bool(came), f"{_name(answer)} names no partition")
    codes_are(answer, dict.fromkeys(came, error))


def left_with(answer: LeaveGroupResponse, *codes: int) -> None:
    """A LeaveGroup of v3 or later whose request was accepted and whose members have these codes, in this order."""
    code_is("LeaveGroupResponse.error_code", 0, answer.error_code)
    wanted, came = [_code(code) for code in codes], [_code(each.error_code) for each in answer.members]
    same("the codes of the leaving members", wanted, came)


def partition_codes(answer: Message) -> dict[Partition, int]:
    """The code of each partition in the answer to a commit or to a deletion of offsets."""
    assert isinstance(answer, OffsetCommitResponse | OffsetDeleteResponse | TxnOffsetCommitResponse)
    return {(topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions}


class Offset(tuple[int, int, str | None, int]):
    """What OffsetFetch says of one partition: offset, leader epoch, metadata, error code."""

    __slots__ = ()


NO_OFFSET = Offset((-1, -1, "", 0))


def offsets_in(answer: OffsetFetchResponse) -> dict[Partition, Offset]:
    """The offsets in an answer of any version; those of the first group where there are several."""
    topics: list[Any] = [*(answer.groups[0].topics if answer.groups else answer.topics)]
    return {
        (topic.name, each.partition_index): Offset(
            (each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code)
        )
        for topic in topics
        for each in topic.partitions
    }


def fetch_code(answer: OffsetFetchResponse) -> int:
    """The code for the whole of the (first) group, which v8 moved."""
    return answer.groups[0].error_code if answer.groups else answer.error_code


def _name(answer: Structure) -> str:
    return type(answer).__name__


def _code(code: int) -> str:
    return f"{code} {ErrorCode.named(code)}" if code else "0"


def _codes(codes: Mapping[Partition, int]) -> str:
    return "{" + ", ".join(f"{topic}-{number}: {_code(code)}" for (topic, number), code in sorted(codes.items())) + "}"
