"""The rules of committed offsets: what OffsetFetch returns, what changes them, how transactions end, what expires."""

from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ConsumerProfile, ResolvedRegex
from regroup.coordinator.group import (
    CommittedOffset,
    Group,
    GroupState,
    LogRecordKind,
    PendingAppend,
    PendingTransactionalOffset,
)
from regroup.lab.checker.offsets.offset_invariants import (
    a_transaction_ends_as_a_whole,
    deleted_offsets_are_gone,
    offset_fetch_returns_what_is_committed,
    offsets_change_with_a_reason,
    offsets_expire_after_their_retention,
    offsets_of_open_transactions_are_unstable,
    only_subscribed_topics_keep_their_offsets,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.offsets import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.lab.checker.made_exchanges import checker_state, made_exchange

STATE = checker_state(offsets_retention_minutes=1)
MINUTE_MS = 60_000
NAMED: dict[str, Any] = {"group_id": "payments", "at_ms": 0}


def group(*offsets: CommittedOffset, **fields: Any) -> Group:
    """A group with these offsets of the partitions of `orders`."""
    committed = {"orders": dict(enumerate(offsets))} if offsets else {}
    return Group(**{"group_id": "payments", "state": GroupState.EMPTY, "committed_offsets": committed, **fields})


def commit(*offsets: tuple[int, int]) -> c.OffsetCommit:
    return c.OffsetCommit(**NAMED, offsets=tuple(c.RequestedOffset("orders", *each) for each in offsets))


# -- OffsetFetch


def fetched(
    before: Group,
    offset: int,
    metadata: str = "",
    *,
    code: int = 0,
    partition: int = 0,
    require_stable: bool = False,
) -> str | None:
    row = OffsetFetchResponsePartitions(
        partition_index=partition, committed_offset=offset, metadata=metadata, error_code=code
    )
    topics = [OffsetFetchResponseTopics(name="orders", partitions=[row])]
    response = OffsetFetchResponseGroup(group_id="payments", topics=topics)
    command = c.OffsetFetch(**NAMED, partitions=None, require_stable=require_stable)
    exchange = made_exchange(command, before, response=response)
    return offset_fetch_returns_what_is_committed(STATE, exchange)


KNOWN = group(CommittedOffset(7, metadata="seven"))


def test_another_offset_or_other_metadata_than_the_committed_ones_are_found() -> None:
    assert fetched(KNOWN, 6, "seven") == "orders-0: 6, and 7 is committed"
    assert fetched(KNOWN, 7, "six")
    assert fetched(KNOWN, -1)


def test_an_offset_where_none_is_committed_is_found() -> None:
    assert fetched(KNOWN, 0, partition=1) == "orders-1: 0, and -1 is committed"


def test_the_committed_offset_and_minus_one_are_in_order() -> None:
    assert fetched(KNOWN, 7, "seven") is None
    assert fetched(KNOWN, -1, partition=1) is None


def test_a_refused_partition_is_not_compared() -> None:
    assert fetched(KNOWN, -1, code=88) is None


def test_offsets_that_wait_for_the_log_count_for_a_stable_fetch_alone() -> None:
    appends = {
        number: PendingAppend(
            kind=LogRecordKind.OFFSETS, deadline_ms=0, offsets={"orders": {0: CommittedOffset(offset)}}
        )
        for number, offset in ((3, 9), (2, 8))
    }
    waiting = replace(KNOWN, pending_appends=appends)
    assert fetched(waiting, 9, require_stable=True) is None, "the newest of them"
    assert fetched(waiting, 8, require_stable=True) == "orders-0: 8, and 9 is committed"
    assert fetched(waiting, 7, "seven", require_stable=True)
    assert fetched(waiting, 7, "seven") is None
    assert fetched(waiting, 9)
    late = {number: replace(each, has_timed_out=True) for number, each in appends.items()}
    assert fetched(replace(KNOWN, pending_appends=late), 7, "seven", require_stable=True) is None
    assert fetched(replace(KNOWN, pending_appends=appends | {2: late[2]}), 9, require_stable=True) is None


# -- what changes offsets


def change(command: c.Command, before: Group, after: Group) -> str | None:
    return offsets_change_with_a_reason(STATE, made_exchange(command, before, after))


HEARTBEAT = c.Heartbeat(**NAMED, member_id="anna", generation_id=1)


def test_a_command_that_commits_nothing_and_changes_an_offset_is_found() -> None:
    assert change(HEARTBEAT, KNOWN, group(CommittedOffset(8))) == "Heartbeat changes orders-0 from 7 to 8"
    assert change(HEARTBEAT, KNOWN, group()) == "Heartbeat changes orders-0 from 7 to None"


def test_a_commit_that_changes_another_partition_or_offset_is_found() -> None:
    before = group(CommittedOffset(7), CommittedOffset(3))
    assert change(commit((0, 8)), before, group(CommittedOffset(8), CommittedOffset(4)))
    assert change(commit((0, 8)), before, group(CommittedOffset(9), CommittedOffset(3)))
    assert change(commit((0, 8)), before, group())


def test_a_commit_that_changes_what_it_names_is_in_order() -> None:
    before = group(CommittedOffset(7), CommittedOffset(3))
    assert change(commit((0, 8)), before, group(CommittedOffset(8), CommittedOffset(3))) is None


@pytest.mark.parametrize(
    "command",
    [
        c.ExpireOffsets(**NAMED),
        c.DeleteTopicOffsets(**NAMED, topic="orders"),
        c.OffsetDelete(**NAMED, partitions={"orders": (0,)}),
        c.EndTransaction(**NAMED, producer_id=5, committed=True),
        c.LoadGroup(**NAMED),
    ],
    ids=lambda command: type(command).__name__,
)
def test_deletions_transactions_and_loads_may_change_offsets(command: c.Command) -> None:
    assert change(command, KNOWN, group()) is None


def test_a_command_that_leaves_the_offsets_or_deletes_the_group_is_in_order() -> None:
    assert change(HEARTBEAT, KNOWN, KNOWN) is None
    assert change(HEARTBEAT, KNOWN, replace(KNOWN, committed_offsets=dict(KNOWN.committed_offsets))) is None
    assert change(HEARTBEAT, KNOWN, group(state=GroupState.DEAD)) is None


# -- transactions


def pending(*offsets: int, is_superseded: bool = False, producer_id: int = 5) -> dict[int, Any]:
    rows = {
        index: PendingTransactionalOffset(CommittedOffset(offset), 2, is_superseded)
        for index, offset in enumerate(offsets)
    }
    return {producer_id: {"orders": rows}}


def ended(before: Group, after: Group, *, committed: bool) -> str | None:
    command = c.EndTransaction(**NAMED, producer_id=5, committed=committed)
    return a_transaction_ends_as_a_whole(STATE, made_exchange(command, before, after))


OPEN = group(CommittedOffset(1), pending_transactional_offsets=pending(7))
"""Offset 1 is committed, and offset 7 written in a transaction."""


def test_a_transaction_that_stays_open_after_its_end_is_found() -> None:
    assert ended(OPEN, OPEN, committed=True) == "the transaction of producer 5 is still open"


def test_a_committed_transaction_that_loses_or_changes_an_offset_is_found() -> None:
    assert ended(OPEN, group(CommittedOffset(1)), committed=True)
    assert ended(OPEN, group(CommittedOffset(6)), committed=True)
    two = replace(OPEN, pending_transactional_offsets=pending(7, 8))
    assert ended(two, group(CommittedOffset(7)), committed=True), "only one of two partitions"
    assert ended(OPEN, group(CommittedOffset(7), CommittedOffset(9)), committed=True), "one that it does not have"


def test_of_several_offsets_that_a_transaction_loses_the_first_one_is_named() -> None:
    before = group(pending_transactional_offsets=pending(*range(40)))
    assert (ended(before, group(), committed=True) or "").startswith("a transaction that committed leaves orders-0 at")


def test_an_aborted_transaction_whose_offset_is_committed_is_found() -> None:
    assert ended(OPEN, group(CommittedOffset(7)), committed=False)


def test_a_transaction_that_ends_as_it_should_is_in_order() -> None:
    assert ended(OPEN, group(CommittedOffset(7)), committed=True) is None
    assert ended(OPEN, group(CommittedOffset(1)), committed=False) is None


def test_an_offset_that_a_later_commit_has_superseded_is_dropped() -> None:
    superseded = replace(OPEN, pending_transactional_offsets=pending(7, is_superseded=True))
    assert ended(superseded, group(CommittedOffset(1)), committed=True) is None
    assert ended(superseded, group(CommittedOffset(7)), committed=True)


def test_the_transaction_of_another_producer_stays_open() -> None:
    others = pending(9, producer_id=6)
    before = replace(OPEN, pending_transactional_offsets=OPEN.pending_transactional_offsets | others)
    assert ended(before, group(CommittedOffset(7), pending_transactional_offsets=others), committed=True) is None


# -- expiry


def expired(before: Group, *, at_ms: int = MINUTE_MS, after: Group | None = None) -> str | None:
    command = c.ExpireOffsets(group_id="payments", at_ms=at_ms)
    return offsets_expire_after_their_retention(STATE, made_exchange(command, before, after or group()))


EMPTIED = group(CommittedOffset(7, committed_at_ms=0), protocol_type="consumer")
STABLE = replace(EMPTIED, state=GroupState.STABLE, subscribed_topics=("clicks",))


def test_an_offset_that_expires_before_its_retention_is_over_is_found() -> None:
    assert expired(EMPTIED, at_ms=MINUTE_MS - 1) == "the retention of orders-0 began 59999 ms ago"
    assert expired(EMPTIED) is None


def test_the_retention_of_an_emptied_group_counts_from_when_it_became_empty() -> None:
    assert expired(replace(EMPTIED, state_since_ms=1)) == "the retention of orders-0 began 59999 ms ago"
    late = group(CommittedOffset(7, committed_at_ms=MINUTE_MS - 5), protocol_type="consumer")
    assert expired(late) is None, "as in Kafka, a commit to an Empty group does not begin it again"


HELD = "members subscribe to orders, or might, or the group rebalances"


def test_an_offset_of_a_subscribed_topic_that_expires_is_found() -> None:
    assert expired(replace(STABLE, subscribed_topics=("orders",))) == HELD
    assert expired(STABLE) is None


def test_an_offset_of_a_stable_group_that_expires_is_found_if_its_subscriptions_are_not_known() -> None:
    assert expired(replace(STABLE, subscribed_topics=None)) == HELD
    assert expired(replace(STABLE, protocol_type="connect")) == HELD


def test_an_offset_that_expires_while_a_member_of_the_consumer_protocol_subscribes_is_found() -> None:
    def found(topic: str) -> str | None:
        member = ConsumerMember(member_id="anna", profile=ConsumerProfile(subscribed_topics=(topic,)))
        consumer = ConsumerGroup(members={"anna": member})
        return expired(group(CommittedOffset(7, committed_at_ms=0), consumer=consumer))

    assert found("orders") == HELD
    assert found("clicks") is None


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE])
def test_an_offset_that_expires_in_a_rebalance_is_found(state: GroupState) -> None:
    assert expired(replace(EMPTIED, state=state)) == HELD


def test_an_offset_expires_at_the_time_that_its_commit_has_named_and_not_earlier() -> None:
    named = group(CommittedOffset(7, committed_at_ms=0, expires_at_ms=5), protocol_type="consumer")
    assert expired(named, at_ms=5) is None
    assert expired(named, at_ms=4) == "orders-0 was to be kept for 1 ms more"


def test_an_offset_that_stays_is_in_order() -> None:
    assert expired(EMPTIED, at_ms=1, after=EMPTIED) is None


def test_other_commands_expire_nothing() -> None:
    exchange = made_exchange(c.DeleteTopicOffsets(**NAMED, topic="orders"), EMPTIED, group())
    assert offsets_expire_after_their_retention(STATE, exchange) is None


# -- OffsetDelete


def test_an_offset_that_a_successful_deletion_leaves_is_found() -> None:
    def found(after: Group, code: int = 0) -> str | None:
        row = OffsetDeleteResponsePartition(partition_index=0, error_code=code)
        response = OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic(name="orders", partitions=[row])])
        command = c.OffsetDelete(**NAMED, partitions={"orders": (0,)})
        return deleted_offsets_are_gone(STATE, made_exchange(command, KNOWN, after, response))

    assert found(group()) is None
    assert found(KNOWN) == "orders-0 still has offset 7"
    assert found(KNOWN, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC) is None


MIXED = ConsumerGroup(
    members={"anna": ConsumerMember(member_id="anna", profile=ConsumerProfile(subscribed_topics=("payments",)))},
    resolved_regexes={"o.*": ResolvedRegex(topics=("orders",), resolved_at_ms=1)},
)


@pytest.mark.parametrize(
    ("before", "code", "found"),
    [
        (group(consumer=MIXED), ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, None),
        (group(consumer=MIXED), ErrorCode.NONE, "orders has subscribers, and is answered with NONE"),
        (
            group(consumer=ConsumerGroup()),
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            "orders has no subscribers, and is answered with GROUP_SUBSCRIBED_TO_TOPIC",
        ),
        (group(consumer=ConsumerGroup()), ErrorCode.NONE, None),
        (group(consumer=MIXED), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (
            group(state=GroupState.EMPTY),
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            "orders has no subscribers, and is answered with GROUP_SUBSCRIBED_TO_TOPIC",
        ),
        (group(state=GroupState.PREPARING_REBALANCE), ErrorCode.NONE, None),
    ],
)
def test_only_the_offsets_of_topics_to_which_a_member_subscribes_stay(
    before: Group, code: int, found: str | None
) -> None:
    row = OffsetDeleteResponsePartition(partition_index=0, error_code=code)
    response = OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic(name="orders", partitions=[row])])
    command = c.OffsetDelete(**NAMED, partitions={"orders": (0,)})
    exchange = made_exchange(command, before, before, response)
    assert only_subscribed_topics_keep_their_offsets(STATE, exchange) == found


# -- open transactions


@pytest.mark.parametrize(
    ("is_open", "require_stable", "code", "found"),
    [
        (True, True, ErrorCode.UNSTABLE_OFFSET_COMMIT, None),
        (True, True, ErrorCode.NONE, "orders-0 has an open transaction, and is answered with NONE"),
        (True, False, ErrorCode.NONE, None),
        (False, True, ErrorCode.NONE, None),
        (
            *(False, True, ErrorCode.UNSTABLE_OFFSET_COMMIT),
            "orders-0 has no open transaction, and is answered with UNSTABLE_OFFSET_COMMIT",
        ),
    ],
)
def test_the_offsets_of_open_transactions_are_unstable_for_those_who_ask_for_stable_ones(
    is_open: bool, require_stable: bool, code: int, found: str | None
) -> None:
    """The open transaction is the second one of the group."""
    transactions = {4: {"payments": {}}, **pending(7)} if is_open else {}
    before = group(CommittedOffset(1), pending_transactional_offsets=transactions)
    row = OffsetFetchResponsePartitions(partition_index=0, committed_offset=1, error_code=code)
    topic = OffsetFetchResponseTopics(name="orders", partitions=[row])
    response = OffsetFetchResponseGroup(group_id="payments", topics=[topic])
    command = c.OffsetFetch(**NAMED, partitions=None, require_stable=require_stable)
    exchange = made_exchange(command, before, before, response)
    assert offsets_of_open_transactions_are_unstable(STATE, exchange) == found
