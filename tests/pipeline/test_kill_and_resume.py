"""An ingest and a campaign are killed while they run, and the same command continues them."""

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
from regroup.lab.simulation.run import play
from regroup.pipeline.bronze import ingest
from regroup.pipeline.campaign import grid
from regroup.pipeline.campaign import runner as campaign
from regroup.pipeline.gold.versions import current_version, read_table
from tests.clients.emulator import eventually
from tests.pipeline.histories import crash_history, halves, write_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TIMEOUT_S = 200
"""Generous, since Spark alone takes a minute to start on a busy machine."""

# The command as usual, but one task never ends, and leaves an unfinished file.
INGEST = """
import sys, time
from pathlib import Path
from regroup.cli.main import main
from regroup.pipeline.bronze import ingest

def stall(block):
    from regroup.pipeline.bronze.blocks import write_block
    if Path(block.path).stem == "c":
        block.target.path.parent.mkdir()
        block.target.path.with_name(".block-000000.parquet.1").write_text("half a block")
        time.sleep(3600)
    write_block(block)

ingest.write_block = stall
sys.exit(main(sys.argv[1:]))
"""
CAMPAIGN = """
import sys, time
from functools import partial
from pathlib import Path
from regroup.cli.main import main
from regroup.pipeline.campaign import runner

def stall(plan, folder):
    from regroup.lab.simulation.run import play
    if plan.seed == 21:
        Path(folder, "runs", ".chunk-00000020.parquet.1").write_text("half a chunk")
        time.sleep(3600)
    return play(plan)

runner.run_campaign = partial(runner.run_campaign, play_one=partial(stall, folder=sys.argv[3]))
sys.exit(main(sys.argv[1:]))
"""
TABLES = """
import sys, time
from pathlib import Path
from regroup.cli.main import main
from regroup.pipeline.gold import build

def stall(*frames):
    Path(sys.argv[3], "stalled").touch()
    time.sleep(3600)

build.make_current = stall
sys.exit(main(sys.argv[1:]))
"""
PLAN = """
question: Does it continue?
scenario: crashes
seeds: 24
grid: {assignor: [range]}
fixed: {members: 2, partitions: 3, crashes: 1, session_timeout_ms: 6000}
"""


@contextmanager
def started(program: str, *words: object) -> Iterator[None]:
    """Run a command on one core in a process group of its own, and kill it at the end."""
    command = [sys.executable, "-c", program, *map(str, words), "--master", "local[1]"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "the command ended before it was killed"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def in_order(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.orderBy("store", "position").collect()]


def test_a_killed_ingest_continues_with_the_missing_blocks(spark: SparkSession, tmp_path: Path) -> None:
    for name in "abcd":
        write_store(tmp_path / f"{name}.db", crash_history("range", ord(name), crashes=1))
    words, out = ["pipeline", "ingest", f"{tmp_path}/*.db"], tmp_path / "out"
    with started(INGEST, *words, out):
        eventually(lambda: len(list(out.rglob(".block-*.1"))) == 1, "the third store", TIMEOUT_S)
    first = {path: path.stat().st_mtime_ns for path in out.rglob("block-*.parquet")}
    assert len(first) == 2
    assert main([*words, str(out)]) == 0
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert main([*words, str(tmp_path / "not-killed")]) == 0
    assert in_order(ingest.read_bronze(spark, out)) == in_order(ingest.read_bronze(spark, tmp_path / "not-killed"))
    assert not list(out.rglob(".*.parquet.*"))


def test_a_killed_build_of_the_tables_leaves_the_version_before_it(spark: SparkSession, tmp_path: Path) -> None:
    (first_half, second_half), out = halves(crash_history("range", 1)), tmp_path / "out"
    write_store(tmp_path / "a.db", first_half)
    assert main(["pipeline", "ingest", f"{tmp_path}/a.db", str(out)]) == 0
    assert main(["pipeline", "tables", str(out)]) == 0
    first, rows = current_version(out), in_order(read_table(spark, out, "transitions"))
    write_store(tmp_path / "a.db", second_half)
    assert main(["pipeline", "ingest", f"{tmp_path}/a.db", str(out)]) == 0
    with started(TABLES, "pipeline", "tables", out):
        eventually((out / "stalled").exists, "most tables", TIMEOUT_S)
    assert len([each for each in (out / "tables").iterdir() if each.is_dir()]) == 2
    assert current_version(out) == first
    assert in_order(read_table(spark, out, "transitions")) == rows
    assert main(["report", str(out)]) == 2
    assert main(["pipeline", "tables", str(out)]) == 0
    assert read_table(spark, out, "transitions").count() > len(rows)
    assert main(["pipeline", "clean", str(out)]) == 0
    assert len([each for each in (out / "tables").iterdir() if each.is_dir()]) == 1


def test_a_killed_campaign_continues_with_the_missing_runs(spark: SparkSession, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    plan.write_text(PLAN)
    with started(CAMPAIGN, "campaign", plan, out):
        eventually(lambda: len(list(out.rglob(".chunk-*.1"))) == 1, "the second chunk", TIMEOUT_S)
    first = {path: path.stat().st_mtime_ns for path in out.rglob("chunk-*.parquet")}
    assert len(first) == 2
    assert main(["campaign", str(plan), str(out)]) == 0
    assert {path: path.stat().st_mtime_ns for path in first} == first
    definition = grid.read_campaign(plan)
    assert sorted(row.seed for row in campaign.read_runs(spark, out).collect()) == list(range(24))
    expected = [(run.name, len(play(definition.plan(run)).records)) for run in definition.runs()]
    counted = campaign.read_events(spark, out).groupBy("store").count().collect()
    assert sorted(tuple(row) for row in counted) == sorted(expected)
    assert not list(out.rglob(".*.parquet.*"))
