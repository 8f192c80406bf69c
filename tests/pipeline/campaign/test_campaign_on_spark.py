"""A campaign from its definition to the report."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from regroup.lab.checker.verdict import RunViolation
from regroup.lab.simulation.run import RunOutcome, play
from regroup.pipeline.campaign import grid, runner
from regroup.pipeline.gold.build import build_tables
from regroup.pipeline.gold.versions import read_table
from regroup.pipeline.output_folder import exclusive_writer
from regroup.pipeline.report.page import write_report


@pytest.mark.slow
def test_a_campaign_continues_with_missing_runs_and_its_report_needs_no_other_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "question: Does it end?\nscenario: crashes\nseeds: 11\ngrid: {assignor: [range, cooperative-sticky]}\n"
        "fixed: {members: 2, partitions: 3, crashes: 1, session_timeout_ms: 6000}\n"
    )
    campaign, out = grid.read_campaign(plan), tmp_path / "out"
    assert runner.run_campaign(spark, campaign, out) == 22
    first = (out / "events" / "chunk-00000000.parquet").read_bytes()
    (out / "runs" / "chunk-00000000.parquet").unlink()
    assert runner.run_campaign(spark, campaign, out) == runner.RUNS_PER_CHUNK
    assert (out / "events" / "chunk-00000000.parquet").read_bytes() == first
    assert runner.run_campaign(spark, campaign, out) == 0
    build_tables(spark, out)
    violations = {row.store: len(row.violations) for row in runner.read_runs(spark, out).collect()}
    assert len(violations) == 22
    assert read_table(spark, out, "violations").count() == sum(violations.values()) == 0
    page = write_report(spark, out).read_bytes().decode()
    assert page.count("<svg") >= 6
    assert "http" not in page
    stored = grid.read_campaign(out / "campaign.json")
    worst = re.findall(rf"regroup campaign {out}/campaign.json --only (\S+) --store (\S+).db", page)
    assert len({grid.find_run(stored, name).name for name, _ in worst}) == 10
    assert len({store for _, store in worst}) == 10


@pytest.mark.slow
def test_a_run_with_a_violation_has_its_sentence_and_its_position(spark: SparkSession, tmp_path: Path) -> None:
    campaign = grid.Campaign("?", "crashes", runner.RUNS_PER_CHUNK + 1, {"members": [2]}, {"partitions": 2})
    sound = play(campaign.plan(next(campaign.runs())))
    verdict = sound.verdict.with_violations([RunViolation("It held once.", 7, 3, "")])
    failed = RunOutcome(sound.plan, verdict, sound.records, sound.ended_ms, True)
    with exclusive_writer(tmp_path, "events", "runs"):
        for chunk in runner.missing_chunks(campaign, tmp_path):
            runner.simulate_chunk(chunk, lambda plan: failed if plan.seed == runner.RUNS_PER_CHUNK else sound)
    [row] = runner.read_runs(spark, tmp_path).where("size(violations) > 0").collect()
    assert (row.seed, row.violations, row.violation_positions) == (runner.RUNS_PER_CHUNK, ["It held once."], [3])
