"""Counts of a run that are not checked."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.lab.checker.metrics import Counts, needless_moves
from regroup.protocol.consumer.subscription import TopicPartition
from tests.lab.checker.checker_harness import CheckerHarness, assignment_of, run_ready


def assignment(**members: str) -> dict[str, frozenset[TopicPartition]]:
    """The partitions of each member; every letter stands for one partition."""
    return {
        name: frozenset(TopicPartition("t", ord(letter)) for letter in letters) for name, letters in members.items()
    }


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        (assignment(anna="abcd"), assignment(anna="ab", ben="cd"), 0),
        (assignment(anna="ab", ben="cd"), assignment(anna="cd", ben="ab"), 4),
        (assignment(anna="abc", ben="def"), assignment(anna="ab", ben="de", carla="cf"), 0),
        (assignment(anna="abc", ben="def"), assignment(anna="ad", ben="be", carla="cf"), 2),
        (assignment(anna="ab", ben="cd"), assignment(anna="abcd"), 0),
        (assignment(anna="ab", ben="cd"), assignment(anna="ab", ben="c"), 0),
        (assignment(anna="abcd", ben=""), assignment(anna="ab", ben=""), 0),
        (assignment(), assignment(anna="ab"), 0),
    ],
    ids=["half to a new member", "swap", "one from each", "one each and a swap", "all to the other", "a topic shrinks",
         "revoked first, as cooperative members do", "first assignment"],
)  # fmt: skip
def test_partitions_lost_beyond_what_balance_requires_are_needless_moves(
    before: dict[str, frozenset[TopicPartition]], after: dict[str, frozenset[TopicPartition]], moves: int
) -> None:
    assert needless_moves(before, after) == moves


assignments = st.dictionaries(
    st.sampled_from("xyz"), st.frozensets(st.integers(0, 5).map(lambda n: TopicPartition("t", n)))
)


@given(assignments, assignments)
def test_there_are_no_more_needless_moves_than_moves(
    before: dict[str, frozenset[TopicPartition]], after: dict[str, frozenset[TopicPartition]]
) -> None:
    lost = sum(len(had - after[name]) for name, had in before.items() if name in after)
    assert 0 <= needless_moves(before, after) <= lost
    assert needless_moves(before, before) == 0


def test_counts_print_as_one_line() -> None:
    assert str(Counts(processed=7, ownerless_s=1.25, removals=1)).startswith(
        "processed 7, processed twice 0, offsets went back 0, ownerless s 1.2, needless moves 0"
    )


async def test_a_leader_that_swaps_assignments_makes_needless_moves() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben")
    harness.join(member_id="anna")
    harness.join(member_id="ben")
    await run_ready()
    harness.sync("anna", anna=assignment_of(1), ben=assignment_of(0))
    await run_ready()

    counts = harness.verdict.counts
    assert (counts.needless_moves, counts.rebalances) == (2, 2)


async def test_removals_and_offsets_that_go_back_are_counted() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    for offset in (5, 3, 3, 4, 1):
        harness.commit_as("anna", offset)
    await run_ready()
    harness.heartbeat("anna")

    await run_ready()

    await asyncio.sleep(11)
    counts = harness.verdict.counts
    assert (counts.offsets_went_back, counts.removals) == (2, 1)
    assert counts.events == harness.store.last_position


async def test_records_are_counted_from_the_ledgers_of_the_groups() -> None:
    harness = CheckerHarness()
    partition = TopicPartition("orders", 0)
    for name in ("payments", "invoices"):
        for offset in (0, 1, 0):
            harness.checker.members.group_ledger(name).record_processed(partition, offset, 0, 0)

    counts = harness.verdict.counts
    assert (counts.processed, counts.processed_twice) == (6, 2)
