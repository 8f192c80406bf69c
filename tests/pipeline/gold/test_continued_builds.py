"""Builds that continue the present version of the tables: only new events are folded, and the rows are all there."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from regroup.cli.main import main
from regroup.pipeline.bronze.ingest import ingest
from regroup.pipeline.campaign.grid import Campaign, read_campaign
from regroup.pipeline.campaign.runner import run_campaign
from regroup.pipeline.gold.build import TABLE_NAMES, build_tables
from regroup.pipeline.gold.fold_state import STATE_FOLDER
from regroup.pipeline.gold.folding import FoldTarget, TopicRecords, fold_groups
from regroup.pipeline.gold.new_events import FoldedSources, sources_of
from regroup.pipeline.gold.versions import current_version, read_table, tables_folder
from regroup.pipeline.locations.location import location_of
from tests.pipeline.gold.recorded.recorded_stores import run_seed
from tests.pipeline.histories import GROUP_ID, crash_history, halves, trim_store, write_store

PLAN = """
question: Do more seeds continue it?
scenario: crashes
seeds: 20
grid: {assignor: [range]}
fixed: {members: 2, partitions: 3, crashes: 1, session_timeout_ms: 6000}
"""


def rows_of(spark: SparkSession, folder: Path) -> dict[str, Counter[str]]:
    """The rows of all tables, in no order."""
    return {name: Counter(map(str, read_table(spark, folder, name).toArrow().to_pylist())) for name in TABLE_NAMES}


def current_folder(folder: Path) -> Path:
    current = current_version(folder)
    assert current is not None
    return Path(tables_folder(folder).address, current.name)


def sources(folder: Path) -> FoldedSources:
    content = (current_folder(folder) / STATE_FOLDER / "sources.json").read_bytes()
    return msgspec.json.decode(content, type=FoldedSources)


def ingest_halves(spark: SparkSession, folder: Path) -> Path:
    """Build tables of half a store, and then ingest the rest of it and a second store, which was trimmed."""
    first, second = halves(crash_history("range", 1))
    write_store(folder / "a.db", first)
    ingest(spark, str(folder / "a.db"), folder / "out")
    build_tables(spark, folder / "out")
    write_store(folder / "a.db", second)
    write_store(folder / "b.db", crash_history("cooperative-sticky", 2))
    trim_store(folder / "b.db", before=30)
    ingest(spark, str(folder / "*.db"), folder / "out")
    return folder / "out"


def test_a_second_build_has_the_rows_of_a_build_of_all_events(spark: SparkSession, tmp_path: Path) -> None:
    out = ingest_halves(spark, tmp_path)
    complete = {file.name: file.stat().st_ino for file in (current_folder(out) / "gaps").glob("part-0*.parquet")}
    build_tables(spark, out)
    assert sources(out).continued == 1
    assert {name: (current_folder(out) / "gaps" / name).stat().st_ino for name in complete} == complete
    continued = rows_of(spark, out)
    assert main(["pipeline", "tables", str(out), "--full"]) == 0
    assert sources(out).continued == 0
    assert rows_of(spark, out) == continued
    build_tables(spark, out)
    assert sources(out).continued == 1
    assert rows_of(spark, out) == continued


def test_a_second_build_reads_only_events_after_those_of_the_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, read = ingest_halves(spark, tmp_path), []

    def noted(
        events: DataFrame, topics: TopicRecords, target: FoldTarget, states: DataFrame | None = None
    ) -> dict[str, int]:
        read.extend((row.store, row.position) for row in events.collect())
        return fold_groups(events, topics, target, states)

    [through] = sources(out).through.values()
    monkeypatch.setattr("regroup.pipeline.gold.build.fold_groups", noted)
    build_tables(spark, out)
    of_first = [position for store, position in read if store.endswith("a.db")]
    assert sorted(of_first) == list(range(through + 1, len(crash_history("range", 1)) + 1))


def with_other_code(out: Path) -> None:
    file = current_folder(out) / STATE_FOLDER / "sources.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": "other code"}))


def without_state(out: Path) -> None:
    (current_folder(out) / STATE_FOLDER / "sources.json").unlink()


def with_more_events_than_there_are(out: Path) -> None:
    file = current_folder(out) / STATE_FOLDER / "sources.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"through": dict.fromkeys(content["through"], 10_000)}))


@pytest.mark.parametrize("change", [with_other_code, without_state, with_more_events_than_there_are])
def test_what_cannot_be_continued_is_folded_from_the_first_event(
    spark: SparkSession, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    out = ingest_halves(spark, tmp_path)
    change(out)
    build_tables(spark, out)
    assert sources(out).continued == 0
    rows = rows_of(spark, out)
    build_tables(spark, out, is_full=True)
    assert rows_of(spark, out) == rows


def test_events_of_an_interrupted_ingest_are_in_the_tables_once_a_later_one_has_completed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regroup.pipeline.bronze.blocks.POSITIONS_PER_BLOCK", 20)
    (first, second), out = halves(crash_history("range", 1)), tmp_path / "out"
    write_store(tmp_path / "a.db", first)
    ingest(spark, str(tmp_path / "a.db"), out)
    of_first = {file: file.read_bytes() for file in [*out.rglob("*.json"), *out.rglob("block-000001.parquet")]}
    write_store(tmp_path / "a.db", second)
    ingest(spark, str(tmp_path / "a.db"), out)
    # As if the second ingest had been killed after it wrote the third block, and before it wrote the second one anew.
    for file, content in of_first.items():
        file.write_bytes(content)
    capsys.readouterr()
    assert main(["pipeline", "tables", str(out)]) == 0
    assert f"{tmp_path / 'a.db'}: its last ingest is not complete" in capsys.readouterr().err
    ingest(spark, str(tmp_path / "a.db"), out)
    assert build_tables(spark, out) == ()
    rows = rows_of(spark, out)
    assert rows["violations"].total() == 0
    build_tables(spark, out, is_full=True)
    assert rows_of(spark, out) == rows


def test_heartbeats_are_read_beside_the_events_of_complete_ingests_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.pipeline.bronze.blocks.POSITIONS_PER_BLOCK", 20)
    out = tmp_path / "out"
    ingest(spark, str(run_seed(32, tmp_path / "a.db")), out)
    [manifest] = (out / "ingested").glob("*.json")
    _, missing, *later = sorted((out / "bronze").rglob("block-*.parquet"))
    # As if the first ingest had ended at position 20, and the second one had been killed before it wrote that block.
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"through": 20}))
    missing.unlink()
    build_tables(spark, out)
    rows = rows_of(spark, out)
    assert rows["heartbeats"].total() > 0
    for each in later:
        each.unlink()
    build_tables(spark, out, is_full=True)
    assert rows_of(spark, out) == rows


def test_a_store_that_was_trimmed_through_its_last_position_has_the_groups_of_its_snapshots(
    spark: SparkSession, tmp_path: Path
) -> None:
    (first, second), out = halves(crash_history("range", 1)), tmp_path / "out"
    write_store(tmp_path / "a.db", first)
    trim_store(tmp_path / "a.db", before=len(first) + 1)
    ingest(spark, str(tmp_path / "a.db"), out)
    assert main(["pipeline", "tables", str(out)]) == 0
    last = max(each.position for each in first if each.group is not None)
    assert [(row.group, row.position) for row in read_table(spark, out, "groups").collect()] == [(GROUP_ID, last)]
    write_store(tmp_path / "a.db", second)
    ingest(spark, str(tmp_path / "a.db"), out)
    build_tables(spark, out)
    assert sources(out).continued == 1
    rows = rows_of(spark, out)
    build_tables(spark, out, is_full=True)
    assert rows_of(spark, out) == rows


def test_more_runs_of_a_campaign_are_added_to_its_tables(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    out, plan = tmp_path / "out", read_campaign(tmp_path / "plan.yaml")

    def run(campaign: Campaign) -> None:
        run_campaign(spark, campaign, out)
        build_tables(spark, out)

    run(plan)
    run(msgspec.structs.replace(plan, seeds=22))
    assert len(sources_of(location_of(out))[0].chunks) == 2
    assert sources(out).continued == 1
    continued = rows_of(spark, out)
    assert continued["groups"].total() == 22
    build_tables(spark, out, is_full=True)
    assert rows_of(spark, out) == continued
