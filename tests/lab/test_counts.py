"""What is counted and not judged."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.lab.checker.metrics import Counts, moved_for_nothing
from regroup.protocol.consumer.subscription import TopicPartition
from tests.lab.court import Court, share, turns


def owns(**shares: str) -> dict[str, frozenset[TopicPartition]]:
    """Partitions are letters."""
    return {name: frozenset(TopicPartition("t", ord(letter)) for letter in letters) for name, letters in shares.items()}


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (owns(anna="abcd"), owns(anna="ab", ben="cd"), 0),
        (owns(anna="ab", ben="cd"), owns(anna="cd", ben="ab"), 4),
        (owns(anna="abc", ben="def"), owns(anna="ab", ben="de", carla="cf"), 0),
        (owns(anna="abc", ben="def"), owns(anna="ad", ben="be", carla="cf"), 2),
        (owns(anna="ab", ben="cd"), owns(anna="abcd"), 0),
        (owns(anna="ab", ben="cd"), owns(anna="ab", ben="c"), 0),
        (owns(anna="abcd", ben=""), owns(anna="ab", ben=""), 0),
        (owns(), owns(anna="ab"), 0),
    ],
    ids=["shares with a newcomer", "swaps", "gives one each", "swaps besides", "inherits", "a partition vanishes",
         "gives up first, as cooperative members do", "begins"],
)  # fmt: skip
def test_what_is_given_up_beyond_what_balance_asks_for_was_moved_for_nothing(
    before: dict[str, frozenset[TopicPartition]], after: dict[str, frozenset[TopicPartition]], moved: int
) -> None:
    assert moved_for_nothing(before, after) == moved


assignments = st.dictionaries(
    st.sampled_from("xyz"), st.frozensets(st.integers(0, 5).map(lambda n: TopicPartition("t", n)))
)


@given(assignments, assignments)
def test_no_more_is_moved_for_nothing_than_has_moved_at_all(
    before: dict[str, frozenset[TopicPartition]], after: dict[str, frozenset[TopicPartition]]
) -> None:
    gave_up = sum(len(had - after[name]) for name, had in before.items() if name in after)
    assert 0 <= moved_for_nothing(before, after) <= gave_up
    assert moved_for_nothing(before, before) == 0


def test_counts_print_as_words_and_add_up() -> None:
    counts = Counts(processed=3, ownerless_s=1.25) + Counts(processed=4, expulsions=1)
    assert counts == Counts(processed=7, ownerless_s=1.25, expulsions=1)
    assert str(counts).startswith(
        "processed 7, processed twice 0, offsets went back 0, ownerless s 1.2, moved for nothing 0"
    )


async def test_a_leader_that_deals_everything_anew_moves_partitions_for_nothing() -> None:
    court = Court()
    await court.stable("anna", "ben")
    court.join(member_id="anna")
    court.join(member_id="ben")
    await turns()
    court.sync("anna", anna=share(1), ben=share(0))
    await turns()

    counts = court.verdict.counts
    assert (counts.moved_for_nothing, counts.rebalances) == (2, 2)


async def test_expulsions_and_offsets_that_go_back_are_counted() -> None:
    court = Court()
    await court.stable("anna")
    for offset in (5, 3, 3, 4, 1):
        court.commit_as("anna", offset)
    await turns()
    court.beat("anna")

    await turns()

    await asyncio.sleep(11)
    counts = court.verdict.counts
    assert (counts.offsets_went_back, counts.expulsions) == (2, 1)
    assert counts.events == court.store.last_position


async def test_records_are_counted_from_the_ledgers_of_the_groups() -> None:
    court = Court()
    partition = TopicPartition("orders", 0)
    for name in ("payments", "invoices"):
        for offset in (0, 1, 0):
            court.judge.ledger(name).processed(partition, offset, 0, 0)

    counts = court.verdict.counts
    assert (counts.processed, counts.processed_twice) == (6, 2)
