"""Offsets are gone when their retention and one check interval are over, unless something holds them."""

import asyncio
from typing import Any
from unittest.mock import Mock

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
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.lab.checker.offsets.expiry import CHECKS_KEEP_THEIR_INTERVAL, OFFSETS_EXPIRE, OffsetExpiry
from regroup.lab.planted_bugs.folding import retention_is_checked_once
from tests.lab.checker.checker_harness import CheckerHarness

MINUTE_MS = 60_000
SETTINGS = CoordinatorSettings(offsets_retention_minutes=1, offsets_retention_check_interval_ms=5_000)
EMPTY = Group(
    group_id="payments",
    state=GroupState.EMPTY,
    event_number=1,
    protocol_type="consumer",
    state_since_ms=0,
    committed_offsets={"orders": {0: CommittedOffset(7, committed_at_ms=0)}},
)
STABLE = replace(EMPTY, state=GroupState.STABLE, subscribed_topics=("orders",))


def exchange(command: c.Command, before: Group, after: Group) -> ObservedExchange:
    handled = ObservedExchange(1, Mock(), 1, command, before, None, None)
    handled.after = after
    return handled


def looked(before: Group, at_ms: int, after: Group | None = None) -> list[str]:
    """What is wrong after a look for expired offsets that has left the offsets of `after`."""
    command = c.ExpireOffsets(group_id="payments", at_ms=at_ms)
    found = list(OffsetExpiry(SETTINGS).on_command(exchange(command, before, after or before), now_ms=0))
    assert all(sentence == OFFSETS_EXPIRE for sentence, _ in found)
    return [detail for _, detail in found]


def test_an_offset_that_a_look_leaves_after_its_retention_is_found() -> None:
    assert looked(EMPTY, MINUTE_MS - 1) == []
    assert looked(EMPTY, MINUTE_MS) == [f"orders-0 was left, {MINUTE_MS} ms after its retention began"]
    assert looked(EMPTY, MINUTE_MS, replace(EMPTY, committed_offsets={})) == []


def test_the_retention_of_an_emptied_group_counts_from_when_it_became_empty() -> None:
    late = replace(EMPTY, state_since_ms=10_000)
    assert looked(late, MINUTE_MS + 9_999) == []
    assert looked(late, MINUTE_MS + 10_000)
    assert looked(replace(late, protocol_type=""), MINUTE_MS), "a group that never had members has no such time"


def test_a_time_that_the_commit_has_named_counts_in_place_of_the_retention() -> None:
    named = replace(EMPTY, committed_offsets={"orders": {0: CommittedOffset(7, committed_at_ms=0, expires_at_ms=9)}})
    assert looked(named, 8) == []
    assert looked(named, 9)


@pytest.mark.parametrize(
    "held",
    [
        STABLE,
        replace(STABLE, subscribed_topics=None),
        replace(STABLE, subscribed_topics=(), protocol_type="connect"),
        replace(EMPTY, state=GroupState.PREPARING_REBALANCE),
        replace(EMPTY, state=GroupState.COMPLETING_REBALANCE),
        replace(
            EMPTY,
            pending_transactional_offsets={3: {"orders": {0: PendingTransactionalOffset(CommittedOffset(8), 2)}}},
        ),
    ],
    ids=["subscribed", "unreadable", "other-protocol", "preparing", "completing", "transaction"],
)
def test_an_offset_that_is_held_may_stay(held: Group) -> None:
    assert looked(held, 10 * MINUTE_MS) == []


def test_an_offset_is_held_while_the_log_has_a_newer_one_for_its_partition_and_no_other() -> None:
    for index, is_held in ((0, True), (1, False)):
        written = {"orders": {index: CommittedOffset(8)}}
        append = PendingAppend(kind=LogRecordKind.OFFSETS, deadline_ms=0, offsets=written)
        assert (looked(replace(EMPTY, pending_appends={2: append}), MINUTE_MS) == []) is is_held


def test_an_offset_of_a_topic_without_subscribers_expires_in_stable() -> None:
    assert looked(replace(STABLE, subscribed_topics=("clicks",)), MINUTE_MS)


def consumer_group(**profile: Any) -> Group:
    """A group of the consumer protocol with one member, and the topics that match its pattern."""
    member = ConsumerMember(member_id="anna", profile=ConsumerProfile(**profile))
    regexes = {"cl.*": ResolvedRegex(("clicks",), 0)}
    return replace(EMPTY, consumer=ConsumerGroup(members={"anna": member}, resolved_regexes=regexes))


def test_members_of_the_consumer_protocol_hold_the_topics_that_they_name_or_match() -> None:
    assert looked(consumer_group(subscribed_topics=("orders",)), 10 * MINUTE_MS) == []
    clicks = {"clicks": {0: CommittedOffset(7, committed_at_ms=0)}}
    matching = replace(consumer_group(subscribed_regex="cl.*"), committed_offsets=clicks)
    assert looked(matching, 10 * MINUTE_MS) == []
    assert looked(consumer_group(subscribed_regex="cl.*"), MINUTE_MS)


def test_the_retention_of_a_group_of_the_consumer_protocol_counts_from_the_commit() -> None:
    late = replace(consumer_group(), state_since_ms=10_000)
    assert looked(late, MINUTE_MS - 1) == []
    assert looked(late, MINUTE_MS)


def heartbeat() -> c.Heartbeat:
    return c.Heartbeat(group_id="payments", at_ms=0, member_id="anna", generation_id=1)


def test_a_look_that_does_not_come_within_the_check_interval_is_found_once() -> None:
    expiry = OffsetExpiry(SETTINGS)
    expiry.on_loaded("payments", 0)
    assert list(expiry.on_command(exchange(heartbeat(), STABLE, STABLE), 6_000)) == []
    assert list(expiry.on_command(exchange(heartbeat(), STABLE, STABLE), 6_001)) == [
        (CHECKS_KEEP_THEIR_INTERVAL, "nothing has looked for expired offsets of group payments for 6001 ms")
    ]
    assert list(expiry.overdue(STABLE, 60_000)) == []


async def test_a_look_that_is_missing_at_the_end_of_a_run_breaks_the_rule_of_the_check_interval() -> None:
    harness = CheckerHarness(offsets_retention_check_interval_ms=5_000)
    with retention_is_checked_once.plant():
        await harness.start()
        harness.commit(7)
        await asyncio.sleep(12)
    assert harness.verdict.sentences == (CHECKS_KEEP_THEIR_INTERVAL,)


@pytest.mark.parametrize("what", ["a look", "a load", "a new group"])
def test_the_check_interval_begins_again_with(what: str) -> None:
    expiry = OffsetExpiry(SETTINGS)
    expiry.on_loaded("payments", 0)
    command: Any = c.ExpireOffsets(group_id="payments", at_ms=0)
    match what:
        case "a look":
            list(expiry.on_command(exchange(command, STABLE, STABLE), 5_000))
        case "a load":
            list(expiry.on_command(exchange(c.LoadGroup(group_id="payments", at_ms=0), STABLE, STABLE), 5_000))
            assert list(expiry.overdue(STABLE, 60_000)) == [], "its load is not durable"
            expiry.on_loaded("payments", 5_000)
        case _:
            list(expiry.on_command(exchange(heartbeat(), Group(group_id="payments"), STABLE), 5_000))
    assert list(expiry.overdue(STABLE, 11_000)) == []
    assert list(expiry.overdue(STABLE, 11_001))


def test_a_group_without_offsets_needs_no_look() -> None:
    expiry = OffsetExpiry(SETTINGS)
    expiry.on_loaded("payments", 0)
    assert list(expiry.overdue(replace(STABLE, committed_offsets={}), 60_000)) == []


def test_two_looks_have_the_check_interval_between_them() -> None:
    expiry = OffsetExpiry(SETTINGS)
    look = exchange(c.ExpireOffsets(group_id="payments", at_ms=0), STABLE, STABLE)
    load = exchange(c.LoadGroup(group_id="payments", at_ms=0), STABLE, STABLE)
    assert [list(expiry.early_look(look, now_ms)) for now_ms in (7_000, 12_000)] == [[], []]
    assert list(expiry.early_look(look, 16_995)) == ["it has looked 4995 ms ago in group payments"]
    assert list(expiry.early_look(load, 17_000)) == []
    assert list(expiry.early_look(look, 17_001)) == [], "another coordinator looks at times of its own"
