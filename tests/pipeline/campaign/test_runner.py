"""The missing chunks of a campaign and the files of each, without Spark: every run has the same prepared outcome."""

import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from regroup.cli.main import main
from regroup.cli.spark.campaign import run_interruptibly
from regroup.lab.checker.metrics import Counts
from regroup.lab.checker.verdict import RunVerdict
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.search.seed_run import play_bounded
from regroup.lab.simulation.run import NO_REBALANCE_STORM, RunOutcome, play
from regroup.pipeline.campaign.grid import Campaign, InvalidCampaign, find_run, read_campaign
from regroup.pipeline.campaign.runner import (
    MAX_CALLBACKS_PER_RUN,
    RUNS_PER_CHUNK,
    STABLE_AT_LEAST_ONCE,
    campaign_file,
    check_folder,
    claim_folder,
    missing_chunks,
    replay_command,
    require_stable,
    simulate_chunk,
    store_file_name,
)
from regroup.pipeline.output_folder import exclusive_writer
from tests.pipeline.histories import crash_history

ONE_REBALANCE = RunVerdict(counts=Counts(rebalances=1))


@pytest.fixture(scope="module")
def play_one() -> Callable[[SimulationPlan], RunOutcome]:
    """Returns the same outcome for every plan."""
    records = crash_history("range", 1)
    return lambda plan: RunOutcome(plan, ONE_REBALANCE, records, 1_000, True)


def campaign_of(seeds: int, *, cells: int = 2) -> Campaign:
    return Campaign("?", "crashes", seeds, {"members": list(range(2, 2 + cells))}, {"partitions": 2})


def simulate_in(folder: Path, campaign: Campaign, play_one: Callable[[SimulationPlan], RunOutcome]) -> int:
    """Simulate what is missing in the folder, as `regroup campaign` does, and return the number of runs."""
    with exclusive_writer(folder, "events", "runs"):
        claim_folder(campaign, folder)
        missing = missing_chunks(campaign, folder)
        for chunk in missing:
            simulate_chunk(chunk, play_one)
    return sum(chunk.last - chunk.first for chunk in missing)


def runs_in(folder: Path) -> list[tuple[str, int]]:
    found = [row for file in (folder / "runs").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return sorted((row["cell"], row["seed"]) for row in found)


def runs_of(campaign: Campaign) -> list[tuple[str, int]]:
    return sorted((run.cell_name, run.seed) for run in campaign.runs())


def stores_in(folder: Path) -> Iterator[str]:
    """The names of the runs with events, once for each file."""
    for file in (folder / "events").glob("*.parquet"):
        yield from set(pq.read_table(file).column("store").to_pylist())


@pytest.mark.parametrize(("cells", "first", "second"), [(2, 3, 9), (2, 22, 60), (16, 3, 5), (1, 20, 40), (3, 7, 8)])
def test_after_adding_seeds_every_run_is_there_once(
    tmp_path: Path, play_one: Callable[[SimulationPlan], RunOutcome], cells: int, first: int, second: int
) -> None:
    assert simulate_in(tmp_path, campaign_of(first, cells=cells), play_one) == cells * first
    more = campaign_of(second, cells=cells)
    assert simulate_in(tmp_path, more, play_one) == cells * (second - first)
    assert runs_in(tmp_path) == runs_of(more)
    assert sorted(stores_in(tmp_path)) == sorted(run.name for run in more.runs())
    assert simulate_in(tmp_path, more, play_one) == 0


def test_a_missing_chunk_is_simulated_again(tmp_path: Path, play_one: Callable[[SimulationPlan], RunOutcome]) -> None:
    simulate_in(tmp_path, campaign_of(13), play_one)
    simulate_in(tmp_path, campaign_of(40), play_one)
    (tmp_path / "runs" / f"chunk-{26:08}.parquet").unlink()
    assert simulate_in(tmp_path, campaign_of(40), play_one) == RUNS_PER_CHUNK
    assert runs_in(tmp_path) == runs_of(campaign_of(40))


def test_events_of_unfinished_chunks_do_not_count_twice(
    tmp_path: Path, play_one: Callable[[SimulationPlan], RunOutcome]
) -> None:
    """A campaign is killed between the two files of a chunk, and continues with other chunks."""
    simulate_in(tmp_path, campaign_of(3), play_one)
    simulate_in(tmp_path, campaign_of(20), play_one)
    for runs in (tmp_path / "runs").glob("*.parquet"):
        runs.unlink()
    simulate_in(tmp_path, campaign_of(20), play_one)
    assert sorted(stores_in(tmp_path)) == sorted(run.name for run in campaign_of(20).runs())


def test_fewer_seeds_than_the_folder_holds_are_refused(
    tmp_path: Path, play_one: Callable[[SimulationPlan], RunOutcome]
) -> None:
    simulate_in(tmp_path, campaign_of(9), play_one)
    with pytest.raises(InvalidCampaign, match="holds 9 seeds already, and the plan asks for 2: ask for 9 or more"):
        claim_folder(campaign_of(2), tmp_path)
    assert simulate_in(tmp_path, campaign_of(9), play_one) == 0


def test_fewer_seeds_are_accepted_while_nothing_is_simulated(tmp_path: Path) -> None:
    claim_folder(campaign_of(9), tmp_path)
    claim_folder(campaign_of(2), tmp_path)
    assert [(chunk.first, chunk.last) for chunk in missing_chunks(campaign_of(2), tmp_path)] == [(0, 4)]


def test_an_unreadable_campaign_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    claim_folder(campaign_of(1), tmp_path)
    file = campaign_file(tmp_path)
    file.replace(file.read_bytes()[:20])
    with pytest.raises(
        InvalidCampaign, match=r"campaign\.json cannot be read .* Remove it, and start the same campaign"
    ):
        check_folder(campaign_of(1), tmp_path)


def test_a_damaged_runs_file_is_named(tmp_path: Path, play_one: Callable[[SimulationPlan], RunOutcome]) -> None:
    simulate_in(tmp_path, campaign_of(1), play_one)
    (tmp_path / "runs" / f"chunk-{0:08}.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InvalidCampaign, match=r"chunk-00000000\.parquet is damaged\. Remove it"):
        check_folder(campaign_of(1), tmp_path)


def test_a_run_whose_group_was_never_stable_has_a_violation(tmp_path: Path) -> None:
    """If no member joins, no partition loses its owner, and the run would look best."""
    campaign = Campaign("?", "crashes", 1, {"members": [2]}, {"partitions": 2})
    plan = campaign.plan(next(campaign.runs()))
    outcome = play(SimulationPlan(topics=plan.topics, seed=1, faults_end_ms=1_000))
    assert outcome.verdict.counts.ownerless_s == 0
    assert not outcome.failed
    assert [each.sentence for each in require_stable(outcome).verdict.violations] == [STABLE_AT_LEAST_ONCE]
    claim_folder(campaign, tmp_path)
    simulate_chunk(missing_chunks(campaign, tmp_path)[0], lambda plan: outcome)
    [row] = pq.read_table(tmp_path / "runs" / f"chunk-{0:08}.parquet").to_pylist()
    assert row["violations"] == [STABLE_AT_LEAST_ONCE]


def test_the_verdict_on_a_run_whose_group_was_stable_stays() -> None:
    campaign = campaign_of(1)
    outcome = play(campaign.plan(next(campaign.runs())))
    assert require_stable(outcome) is outcome


def test_a_run_whose_work_has_no_end_is_a_violation_and_has_its_events(tmp_path: Path) -> None:
    campaign = Campaign("?", "crashes", 1, {"members": [2]}, {"partitions": 2})
    claim_folder(campaign, tmp_path)
    simulate_chunk(missing_chunks(campaign, tmp_path)[0], partial(play_bounded, max_callbacks=200))
    [row] = pq.read_table(tmp_path / "runs" / f"chunk-{0:08}.parquet").to_pylist()
    assert row["violations"] == [NO_REBALANCE_STORM]
    assert row["rebalances"] > 0
    assert row["events"] == pq.read_metadata(tmp_path / "events" / f"chunk-{0:08}.parquet").num_rows


def test_every_run_of_a_campaign_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[int] = []

    def play_and_note(plan: SimulationPlan, **options: Any) -> RunOutcome:
        bounds.append(options["max_callbacks"])
        return play(plan, **options)

    monkeypatch.setattr("regroup.lab.search.seed_run.play", play_and_note)
    plan_file = tmp_path / "plan.yaml"
    plan_file.write_text("question: '?'\nscenario: crashes\nseeds: 1\ngrid: {members: [2]}\nfixed: {partitions: 2}\n")
    campaign = read_campaign(plan_file)
    claim_folder(campaign, tmp_path / "out")
    simulate_chunk(missing_chunks(campaign, tmp_path / "out")[0])
    assert main(["campaign", str(plan_file), "--only", next(campaign.runs()).name]) == 0
    assert bounds == [MAX_CALLBACKS_PER_RUN, MAX_CALLBACKS_PER_RUN]


def test_a_run_is_found_by_its_name_and_simulated_again() -> None:
    campaign = Campaign("?", "crashes", 3, {"members": [2], "crashes": [1]}, {"partitions": 2})
    run = find_run(campaign, "members=2,crashes=1,seed=2")
    assert play(campaign.plan(run)).records == play(campaign.plan(run)).records
    with pytest.raises(InvalidCampaign, match="unknown run"):
        find_run(campaign, "members=3,crashes=1,seed=2")


def test_every_run_is_replayed_into_a_store_file_of_its_own() -> None:
    names = [run.name for run in campaign_of(3).runs()]
    assert len({store_file_name(name) for name in names}) == len(names)
    assert replay_command(Path("my plan.yaml"), "members=2,seed=0") == (
        "regroup campaign 'my plan.yaml' --only members=2,seed=0 --store members-2-seed-0.db"
    )


def test_the_store_file_name_of_a_long_run_name_is_short_and_unique() -> None:
    one, other = (",".join([*(f"option-{n}=a-long-value" for n in range(15)), f"seed={seed}"]) for seed in (1, 2))
    assert len(store_file_name(one)) < 255
    assert store_file_name(one) != store_file_name(other)


def test_ctrl_c_stops_the_work_and_waits_for_its_end() -> None:
    stopped, ended = threading.Event(), threading.Event()

    def work() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert stopped.wait(10)
        ended.set()
        raise RuntimeError("the error of a cancelled Spark job")

    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_interruptibly(work, stopped.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()


def test_the_signal_handler_is_restored_after_the_work() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run_interruptibly(lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(lambda: 1 // 0, lambda: None)
    assert signal.getsignal(signal.SIGINT) is before
