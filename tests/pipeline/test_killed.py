"""An ingest and a campaign are killed in the middle, for good, and the same command goes on where they stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from regroup.cli.main import main
from regroup.lab.simulation.world import play
from regroup.pipeline.bronze import ingest
from regroup.pipeline.campaign import grid
from regroup.pipeline.campaign import run as campaign
from tests.clients.emulator import eventually
from tests.pipeline.histories import crashes_of, write_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PATIENCE_S = 200
"""On a busy machine Spark alone takes a minute to start."""

# What is typed runs as ever, but one task stops for good in the middle of its work, and says so.
INGEST = """
import sys, time
from pathlib import Path
from regroup.cli.main import main
from regroup.pipeline import bronze

def stalls(block):
    from regroup.pipeline.bronze.ingest import write_block
    if Path(block.path).stem == "c":
        Path(block.target).parent.mkdir()
        Path(block.target).with_name(".block-000000.parquet.1").write_text("half a block")
        time.sleep(3600)
    write_block(block)

bronze.write_block = stalls
sys.exit(main(sys.argv[1:]))
"""
CAMPAIGN = """
import sys, time
from functools import partial
from pathlib import Path
from regroup.cli.main import main
from regroup.pipeline import campaign

def stalls(plan, folder):
    from regroup.lab.simulation.world import play
    if plan.seed == 21:
        Path(folder, "runs", ".chunk-00000020.parquet.1").write_text("half a chunk")
        time.sleep(3600)
    return play(plan)

campaign.run_campaign = partial(campaign.run_campaign, play_one=partial(stalls, folder=sys.argv[3]))
sys.exit(main(sys.argv[1:]))
"""
PLAN = """
question: Does it go on?
scenario: crashes
seeds: 24
grid: {assignor: [range]}
fixed: {members: 2, partitions: 3, crashes: 1, session_timeout_ms: 6000}
"""


@contextmanager
def started(program: str, *words: object) -> Iterator[None]:
    """A command on one core, in a process group of its own, which is killed in the end."""
    command = [sys.executable, "-c", program, *map(str, words), "--master", "local[1]"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "it was to be killed in the middle, and had ended already"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def in_order(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.orderBy("store", "position").collect()]


def test_an_ingest_that_was_killed_goes_on_with_what_is_not_there_yet(spark: SparkSession, tmp_path: Path) -> None:
    for name in "abcd":
        write_store(tmp_path / f"{name}.db", crashes_of("range", ord(name), crashes=1))
    words, out = ["pipeline", "ingest", f"{tmp_path}/*.db"], tmp_path / "out"
    with started(INGEST, *words, out):
        eventually(lambda: len(list(out.rglob(".block-*.1"))) == 1, "the third store", PATIENCE_S)
    first = {path: path.stat().st_mtime_ns for path in out.rglob("block-*.parquet")}
    assert len(first) == 2
    assert main([*words, str(out)]) == 0
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert main([*words, str(tmp_path / "undisturbed")]) == 0
    assert in_order(ingest.events(spark, out)) == in_order(ingest.events(spark, tmp_path / "undisturbed"))
    assert not list(out.rglob(".*.parquet.*"))


def test_a_campaign_that_was_killed_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    plan.write_text(PLAN)
    with started(CAMPAIGN, "campaign", plan, out):
        eventually(lambda: len(list(out.rglob(".chunk-*.1"))) == 1, "the second chunk", PATIENCE_S)
    first = {path: path.stat().st_mtime_ns for path in out.rglob("chunk-*.parquet")}
    assert len(first) == 2
    assert main(["campaign", str(plan), str(out)]) == 0
    assert {path: path.stat().st_mtime_ns for path in first} == first
    asked = grid.read_campaign(plan)
    assert sorted(row.seed for row in campaign.runs(spark, out).collect()) == list(range(24))
    expected = [(run.name, len(play(asked.plan(run)).records)) for run in asked.runs()]
    told = campaign.events(spark, out).groupBy("store").count().collect()
    assert sorted(tuple(row) for row in told) == sorted(expected)
    assert not list(out.rglob(".*.parquet.*"))
