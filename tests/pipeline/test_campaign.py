"""What a campaign has left to do, and what it writes, without Spark: chunk by chunk, with a run that costs nothing."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from regroup.cli.spark.campaign_job import stopped_by_hand
from regroup.lab.checker.judge import Verdict
from regroup.lab.checker.metrics import Counts
from regroup.lab.plan.plan import Plan
from regroup.lab.simulation.world import Outcome, play
from regroup.pipeline.campaign.grid import BadCampaign, Campaign, find
from regroup.pipeline.campaign.run import (
    RUNS_PER_CHUNK,
    STABLE_ONCE,
    check_folder,
    chunks_left,
    claim,
    file_name,
    judged,
    line_to_replay,
    note_of,
    simulate,
)
from tests.pipeline.histories import crashes_of

ASSIGNORS = ["range", "cooperative-sticky"]
ONE_REBALANCE = Verdict(counts=Counts(rebalances=1))


@pytest.fixture(scope="module")
def cheap() -> Callable[[Plan], Outcome]:
    """Every run is the same one."""
    records = crashes_of("range", 1)
    return lambda plan: Outcome(plan, ONE_REBALANCE, records, 1_000, True)


def campaign_of(seeds: int, *, cells: int = 2) -> Campaign:
    return Campaign("?", "crashes", seeds, {"members": list(range(2, 2 + cells))}, {"partitions": 2})


def play_in(folder: Path, campaign: Campaign, cheap: Callable[[Plan], Outcome]) -> int:
    """What `regroup campaign` does in a folder; how many runs it simulated."""
    claim(campaign, folder)
    left = chunks_left(campaign, folder)
    for chunk in left:
        simulate(chunk, cheap)
    return sum(chunk.last - chunk.first for chunk in left)


def runs_in(folder: Path) -> list[tuple[str, int]]:
    found = [row for file in (folder / "runs").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return sorted((row["cell"], row["seed"]) for row in found)


def asked_for(campaign: Campaign) -> list[tuple[str, int]]:
    return sorted((run.cell_name, run.seed) for run in campaign.runs())


def stores_in(folder: Path) -> Iterator[str]:
    """Each run whose events are there, once for each file that has it."""
    for file in (folder / "events").glob("*.parquet"):
        yield from set(pq.read_table(file).column("store").to_pylist())


@pytest.mark.parametrize(("cells", "first", "then"), [(2, 3, 9), (2, 22, 60), (16, 3, 5), (1, 20, 40), (3, 7, 8)])
def test_when_seeds_are_added_every_run_is_there_once(
    tmp_path: Path, cheap: Callable[[Plan], Outcome], cells: int, first: int, then: int
) -> None:
    assert play_in(tmp_path, campaign_of(first, cells=cells), cheap) == cells * first
    more = campaign_of(then, cells=cells)
    assert play_in(tmp_path, more, cheap) == cells * (then - first)
    assert runs_in(tmp_path) == asked_for(more)
    assert sorted(stores_in(tmp_path)) == sorted(run.name for run in more.runs())
    assert play_in(tmp_path, more, cheap) == 0


def test_a_chunk_that_is_lost_from_the_middle_is_simulated_again(
    tmp_path: Path, cheap: Callable[[Plan], Outcome]
) -> None:
    play_in(tmp_path, campaign_of(13), cheap)
    play_in(tmp_path, campaign_of(40), cheap)
    (tmp_path / "runs" / f"chunk-{26:08}.parquet").unlink()
    assert play_in(tmp_path, campaign_of(40), cheap) == RUNS_PER_CHUNK
    assert runs_in(tmp_path) == asked_for(campaign_of(40))


def test_events_of_runs_that_were_never_finished_do_not_count_twice(
    tmp_path: Path, cheap: Callable[[Plan], Outcome]
) -> None:
    """Killed between the two files of a chunk, and then the chunks of a whole folder are cut anew."""
    play_in(tmp_path, campaign_of(3), cheap)
    play_in(tmp_path, campaign_of(20), cheap)
    for runs in (tmp_path / "runs").glob("*.parquet"):
        runs.unlink()
    play_in(tmp_path, campaign_of(20), cheap)
    assert sorted(stores_in(tmp_path)) == sorted(run.name for run in campaign_of(20).runs())


def test_fewer_seeds_than_there_are_runs_of_are_refused(tmp_path: Path, cheap: Callable[[Plan], Outcome]) -> None:
    play_in(tmp_path, campaign_of(9), cheap)
    with pytest.raises(BadCampaign, match="holds 9 seeds already, and the plan asks for 2: ask for 9 or more"):
        claim(campaign_of(2), tmp_path)
    assert play_in(tmp_path, campaign_of(9), cheap) == 0


def test_fewer_seeds_are_no_matter_where_nothing_was_simulated_yet(tmp_path: Path) -> None:
    claim(campaign_of(9), tmp_path)
    claim(campaign_of(2), tmp_path)
    assert [(chunk.first, chunk.last) for chunk in chunks_left(campaign_of(2), tmp_path)] == [(0, 4)]


def test_a_folder_whose_campaign_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    claim(campaign_of(1), tmp_path)
    note = note_of(tmp_path)
    note.write_bytes(note.read_bytes()[:20])
    with pytest.raises(BadCampaign, match=r"campaign\.json cannot be read .* Remove it, and start the same campaign"):
        check_folder(campaign_of(1), tmp_path)


def test_a_damaged_file_of_runs_is_named(tmp_path: Path, cheap: Callable[[Plan], Outcome]) -> None:
    play_in(tmp_path, campaign_of(1), cheap)
    (tmp_path / "runs" / f"chunk-{0:08}.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(BadCampaign, match=r"chunk-00000000\.parquet is damaged\. Remove it"):
        check_folder(campaign_of(1), tmp_path)


def test_a_run_whose_group_was_never_stable_is_broken(tmp_path: Path) -> None:
    """With a session timeout that the coordinator refuses nobody joins, nothing is lost, and that looks best."""
    refused = Campaign("?", "crashes", 1, {"members": [2]}, {"partitions": 2})
    plan = refused.plan(next(refused.runs()))
    outcome = play(Plan(topics=plan.topics, seed=1, heal_ms=1_000))
    assert outcome.verdict.counts.ownerless_s == 0
    assert not outcome.failed
    assert [each.sentence for each in judged(outcome).verdict.broken] == [STABLE_ONCE]
    claim(refused, tmp_path)
    simulate(chunks_left(refused, tmp_path)[0], lambda plan: outcome)
    [row] = pq.read_table(tmp_path / "runs" / f"chunk-{0:08}.parquet").to_pylist()
    assert row["broken"] == [STABLE_ONCE]


def test_a_run_whose_group_was_stable_is_left_as_it_was_judged() -> None:
    campaign = campaign_of(1)
    outcome = play(campaign.plan(next(campaign.runs())))
    assert judged(outcome) is outcome


def test_a_run_of_a_campaign_is_found_and_played_again_by_its_name() -> None:
    asked = Campaign("?", "crashes", 3, {"members": [2], "crashes": [1]}, {"partitions": 2})
    run = find(asked, "members=2,crashes=1,seed=2")
    assert play(asked.plan(run)).records == play(asked.plan(run)).records
    with pytest.raises(BadCampaign, match="no run"):
        find(asked, "members=3,crashes=1,seed=2")


def test_each_run_is_played_again_into_a_file_of_its_own() -> None:
    names = [run.name for run in campaign_of(3).runs()]
    assert len({file_name(name) for name in names}) == len(names)
    assert line_to_replay(Path("my plan.yaml"), "members=2,seed=0") == (
        "regroup campaign 'my plan.yaml' --only members=2,seed=0 --store members-2-seed-0.db"
    )


def test_the_file_of_a_run_with_a_long_name_is_not_too_long_and_still_its_own() -> None:
    one, other = (",".join([*(f"option-{n}=a-long-value" for n in range(15)), f"seed={seed}"]) for seed in (1, 2))
    assert len(file_name(one)) < 255
    assert file_name(one) != file_name(other)


def test_ctrl_c_stops_the_work_and_waits_for_its_end() -> None:
    stopped, ended = threading.Event(), threading.Event()

    def work() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert stopped.wait(10)
        ended.set()
        raise RuntimeError("what Spark says of a job that was cancelled")

    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            stopped_by_hand(work, stopped.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()


def test_work_that_nobody_stops_leaves_ctrl_c_as_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert stopped_by_hand(lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        stopped_by_hand(lambda: 1 // 0, lambda: None)
    assert signal.getsignal(signal.SIGINT) is before
