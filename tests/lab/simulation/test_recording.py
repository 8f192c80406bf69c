"""The recording of a run: the same events as without one, the same rows for the same plan, and every lost message."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from regroup.lab.plan.plan import PlannedStep, SimulationPlan
from regroup.lab.plan.scenario_files import scenario
from regroup.lab.plan.steps import DiskFails, TopicIsCreated
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.network.endpoint import Endpoint
from regroup.lab.simulation.run import play
from regroup.server.recording.observations import MessageObserved, ObservationsBegan, ViewObserved, read_observations
from regroup.storage.memory import MemoryStore
from regroup.storage.records import ExchangeBlock
from regroup.storage.sqlite.inline import open_inline_store
from tests.classroom.recorded.recordings import observations, recorded

DISK_FAULTS = ("disk-full", "coordinator-crashes-mid-rebalance", "power-fails")
STALLED_COMMITS = 9_100_184
"""A seed in which commits and heartbeats wait together in a stalled network."""


def plan_of(what: str | int) -> SimulationPlan:
    return scenario(what) if isinstance(what, str) else draw_plan(what)


def blocks(store: MemoryStore) -> list[ExchangeBlock]:
    async def read() -> list[ExchangeBlock]:
        kept = [each async for each in store.read_exchanges()]
        return kept + [each async for each in store.read_observations()]

    return asyncio.run(read())


@pytest.mark.quick("[coordinator-crashes-mid-rebalance]")
@pytest.mark.parametrize("what", [*DISK_FAULTS, *range(1, 13), STALLED_COMMITS])
def test_a_recorded_run_has_the_same_events_as_one_that_is_not(what: str | int) -> None:
    store = MemoryStore()
    outcome = play(plan_of(what), open_store=store.open, record=True)
    other = play(plan_of(what))
    assert outcome.records == other.records
    assert outcome.verdict == other.verdict


@pytest.mark.quick("[2]")
@pytest.mark.parametrize("what", ["partition-of-one-member", 2, 4])
def test_the_same_plan_gives_the_same_rows(what: str | int) -> None:
    assert blocks(recorded(plan_of(what))) == blocks(recorded(plan_of(what)))


def test_a_run_in_a_file_is_recorded_also_across_a_crash_of_the_brokers(tmp_path: Path) -> None:
    plan, path = scenario("coordinator-crashes-mid-rebalance"), tmp_path / "run.db"
    play(plan, open_store=lambda: open_inline_store(path), record=True)

    async def read() -> list[ExchangeBlock]:
        async with await open_inline_store(path, read_only=True) as store:
            kept = [each async for each in store.read_exchanges()]
            assert any([isinstance(each, ViewObserved) async for each in read_observations(store)])
            return kept + [each async for each in store.read_observations()]

    assert asyncio.run(read()) == blocks(recorded(plan))


def test_a_run_in_a_file_may_end_before_its_failed_store_is_opened_again(tmp_path: Path) -> None:
    steps = (
        PlannedStep(StepTrigger(delay_ms=10), TopicIsCreated("early", 1)),
        PlannedStep(StepTrigger(delay_ms=990), DiskFails()),
        PlannedStep(StepTrigger(delay_ms=999), TopicIsCreated("late", 1)),
    )
    plan = SimulationPlan(steps=steps, faults_end_ms=1_000)
    outcome = play(plan, open_store=lambda: open_inline_store(tmp_path / "run.db"), record=True)
    assert not outcome.failed
    assert [each.type for each in outcome.records].count("topic-created") == 2


def test_a_run_that_is_not_recorded_stores_no_exchange() -> None:
    store = MemoryStore()
    play(scenario("first-join"), open_store=store.open)
    assert blocks(store) == []


class Tally:
    """Counts the messages that programs write, and those that programs get: below the log of the network."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: dict[tuple[object, bool, int], float] = {}
        self.got: dict[tuple[object, bool, int], float] = {}
        self._names: dict[int, object] = {}
        write, deliver = Endpoint.write, Endpoint._deliver

        def count_write(endpoint: Endpoint, data: Any) -> None:
            if not endpoint.is_closing():
                self._count(self.sent, endpoint, endpoint, bytes(data))
            write(endpoint, data)

        def count_delivery(endpoint: Endpoint, data: bytes) -> None:
            self._count(self.got, endpoint, endpoint.peer, data)
            deliver(endpoint, data)

        monkeypatch.setattr(Endpoint, "write", count_write)
        monkeypatch.setattr(Endpoint, "_deliver", count_delivery)

    def _count(
        self, counts: dict[tuple[object, bool, int], float], here: Endpoint, sender: Endpoint, data: bytes
    ) -> None:
        now_s = here._network.loop.time()
        while data:
            length = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + length], data[4 + length :]
            header = frame[4:8] if sender.is_client else frame[:4]
            key = (sender.connection_name, not sender.is_client, int.from_bytes(header, "big"))
            counts[key] = now_s


@pytest.mark.quick("[power-fails]", "[2]")
@pytest.mark.parametrize(
    "what",
    [
        "partition-of-one-member",
        "power-fails",
        "lost-syncgroup-response",
        "leader-crashes-between-join-and-sync",
        7,
        4,
        9,
    ],
)
def test_the_observed_losses_and_delays_are_those_of_a_recount(
    what: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally, plan = Tally(monkeypatch), plan_of(what)
    store = recorded(plan)
    rows = [each for each in observations(store) if isinstance(each, MessageObserved)]
    lost = Counter(
        (each.connection, each.is_response, each.correlation_id) for each in rows if each.arrived_at_ms is None
    )
    late = {(each.connection, each.is_response, each.correlation_id) for each in rows if each.arrived_at_ms is not None}
    missing = tally.sent.keys() - tally.got.keys()
    end_s = max(tally.sent.values())
    on_their_way = {each for each in missing - lost.keys() if tally.sent[each] > end_s - 5}
    assert set(lost) == missing - on_their_way
    assert set(lost.values()) <= {1}
    longest_s = (plan.network.latency_ms + plan.network.jitter_ms) / 1000 + 1e-6
    slow = {each for each, at_s in tally.got.items() if at_s - tally.sent[each] > longest_s}
    assert late == slow
    assert rows


def test_every_lost_or_late_message_has_a_reason_and_lost_requests_their_bytes() -> None:
    rows = observations(recorded(scenario("power-fails"))) + observations(recorded(draw_plan(2)))
    messages = [each for each in rows if isinstance(each, MessageObserved)]
    assert all(each.reason for each in messages)
    for each in messages:
        assert bool(each.request) is (each.arrived_at_ms is None and not each.is_response)


def test_the_first_observation_says_from_when_on_the_network_was_observed() -> None:
    plan = scenario("first-join")
    first = observations(recorded(plan))[0]
    assert isinstance(first, ObservationsBegan)
    assert (first.latency_ms, first.jitter_ms) == (plan.network.latency_ms, plan.network.jitter_ms)
