"""Runs that end at their bound: what their outcome has, and what is left in their store."""

import asyncio
from bisect import bisect_left
from functools import partial
from pathlib import Path

import pytest

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.search.seed_run import finding_of, plant_bug, play_bounded
from regroup.lab.simulation.disk import StoreOpener
from regroup.lab.simulation.run import NO_REBALANCE_STORM, RunOutcome, play
from regroup.lab.simulation.timeline import Timeline
from regroup.server.recording.blocks import decode_block
from regroup.storage.memory import MemoryStore
from regroup.storage.records import Record
from regroup.storage.sqlite.inline import open_inline_store

PLAN = """\
scenario: Two share a topic
topics: {orders: 2}
members: [anna, ben]
disk latency: 5ms
faults end at: 60s
steps:
  - at 0s: [anna joins, ben joins]
  - at 10s: within 1s the group is Stable with anna and ben
"""
BOUND = 180
"""Callbacks of the event loop after which the members own their partitions, and the run is not over."""


@pytest.fixture
def plan() -> SimulationPlan:
    return read_plan(PLAN)


def test_a_run_that_ends_at_its_bound_has_its_events_its_counts_and_its_expectations(plan: SimulationPlan) -> None:
    outcome = play_bounded(plan, max_callbacks=BOUND)
    assert outcome.verdict.sentences == (NO_REBALANCE_STORM,)
    assert f"1 generations and {BOUND:,} callbacks" in outcome.verdict.violations[0].detail
    whole = play(plan)
    assert 10_000 < outcome.ended_ms < whole.ended_ms
    assert outcome.records == whole.records[: len(outcome.records)]
    assert (outcome.verdict.counts.rebalances, outcome.verdict.counts.events) == (1, len(outcome.records))
    assert [each.found for each in outcome.expectations] == [None]


@pytest.mark.parametrize("record", [False, True])
def test_every_bound_around_the_end_of_a_run_gives_an_outcome(plan: SimulationPlan, record: bool) -> None:
    whole = play(plan, open_store=MemoryStore().open, record=record)

    def ends(bound: int) -> bool:
        outcome = play_bounded(plan, max_callbacks=bound, open_store=MemoryStore().open, record=record)
        assert outcome.verdict.sentences in [(), (NO_REBALANCE_STORM,)]
        return outcome.records == whole.records and not outcome.failed

    least = bisect_left(range(20 * BOUND), True, lo=BOUND, key=ends)
    assert BOUND < least < 20 * BOUND
    assert [ends(bound) for bound in range(least - 10, least + 10)] == [False] * 10 + [True] * 10


def test_the_steps_that_an_ended_run_did_not_reach_are_named() -> None:
    plan = read_plan(f"{PLAN}  - after anna loses partitions: anna crashes\n")
    outcome = play_bounded(plan, max_callbacks=BOUND)
    assert [str(each.step) for each in outcome.steps_not_reached] == ["anna crashes"]


def test_a_storm_is_no_failure_to_recover(plan: SimulationPlan) -> None:
    finding = finding_of(play_bounded(plan, max_callbacks=BOUND))
    assert finding is not None
    assert not finding.is_recovery_failure


def test_what_was_violated_before_the_bound_comes_first(plan: SimulationPlan) -> None:
    with plant_bug("response-does-not-wait-for-the-disk"):
        sentences = play_bounded(plan, max_callbacks=BOUND).verdict.sentences
    assert sentences[0].startswith("A response leaves only when")
    assert sentences[-1] == NO_REBALANCE_STORM


@pytest.mark.parametrize("bound", [130, BOUND])
def test_a_run_that_ends_at_its_bound_closes_its_store_and_completes_its_recording(
    plan: SimulationPlan, tmp_path: Path, bound: int
) -> None:
    file, timeline = tmp_path / "run.db", Timeline()
    opener: StoreOpener = partial(open_inline_store, file)
    outcome = play_bounded(plan, max_callbacks=bound, open_store=opener, timeline=timeline, record=True)
    assert not (tmp_path / "run.db-wal").exists()
    assert set(timeline.names.values()) == {"anna", "ben"}
    records, last_ended_ms = asyncio.run(read_store(opener))
    assert records == outcome.records
    assert last_ended_ms >= records[-1].at_ms


async def read_store(opener: StoreOpener) -> tuple[tuple[Record, ...], int]:
    """The events of a store, and when the last of its exchanges ended."""
    store = await opener()
    try:
        records = tuple([record async for record in store.read()])
        rows = [row async for block in store.read_exchanges() for row in decode_block(block)]
        return records, max(row.ended_at_ms or 0 for row in rows)
    finally:
        await store.close()


@pytest.mark.parametrize("step", ["the brokers crash for 20s", "the disk is full for 20s", "broker 0 stops for 20s"])
def test_a_run_ends_at_its_bound_whatever_its_brokers_do(plan: SimulationPlan, step: str) -> None:
    text = PLAN.replace("  - at 10s:", f"  - at 8s: {step}\n  - at 10s:").replace("topics:", "brokers: 2\ntopics:")
    outcomes: list[RunOutcome] = []
    for bound in range(150, 800, 50):
        store = MemoryStore()
        outcomes.append(play_bounded(read_plan(text), max_callbacks=bound, open_store=store.open, record=True))
    assert any(outcome.ended_ms in range(8_000, 28_000) for outcome in outcomes)
    assert all(each.verdict.sentences[-1] == NO_REBALANCE_STORM for each in outcomes if each.ended_ms < 60_000)
