"""The statistics of a report, from tables that are small enough to be counted by hand."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.versions import TablesVersion, make_current
from regroup.pipeline.output_folder import prepare_folder
from regroup.pipeline.report.run_statistics import NOT_OWNED_YET, RunStatistics

Values = Mapping[str, object]

VERSION = TablesVersion("version-000001-0000", "", tuple(TABLES))


def write_rows(folder: Path, name: str, rows: Sequence[Values]) -> None:
    target = folder / "tables" / VERSION.name / name
    target.mkdir(parents=True)
    schema = pa.schema([("store", pa.string()), ("group", pa.string()), *TABLES[name].struct])
    pq.write_table(pa.Table.from_pylist([{"group": "lab", **row} for row in rows], schema), target / "rows.parquet")


def make_written_current(folder: Path) -> None:
    """Make a version current that has the tables with a folder."""
    written = sorted(each.name for each in (folder / "tables" / VERSION.name).iterdir())
    make_current(folder, replace(VERSION, tables=tuple(written)))


def gap(
    store: str,
    partition: int,
    from_ms: int,
    to_ms: int | None,
    reason: str = "session-expiry",
    *,
    was_owned: bool = True,
) -> Values:
    period = {"from_ms": from_ms, "to_ms": to_ms}
    place = {"store": store, "topic": "orders", "partition": partition}
    return {**place, "reason": reason, **period, "was_owned": was_owned}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tables of two stores, which end after 10 s and after 20 s. Partition 1 never had an owner in either."""
    prepare_folder(tmp_path)
    ends = {"short": 10_000, "long": 20_000}
    write_rows(tmp_path, "groups", [{"store": store} for store in ends])
    write_rows(tmp_path, "transitions", [{"store": store, "at_ms": at} for store in ends for at in (0, ends[store])])
    write_rows(tmp_path, "rebalances", [{"store": store, "sync_end_ms": 1_000} for store in ends])
    write_rows(tmp_path, "reconciliations", [])
    never_owned = gap("long", 1, 5_000, 8_000, "unassigned", was_owned=False)
    gaps = [gap("long", 0, 15_000, 20_000), never_owned, gap("short", 0, 0, 1_000, was_owned=False)]
    write_rows(tmp_path, "gaps", gaps)
    make_written_current(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_group_of_the_consumer_protocol_has_its_gaps_its_movements_and_its_durations(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It has no rebalance, from whose first assignment on gaps could count: its first target does."""
    prepare_folder(tmp_path)
    write_rows(tmp_path, "groups", [{"store": "new"}])
    write_rows(tmp_path, "rebalances", [])
    write_rows(tmp_path, "transitions", [{"store": "new", "at_ms": at} for at in (0, 9_500)])
    first = {"members_before": 0, "bumped_ms": 1_000, "target_ms": 1_000, "ended_ms": 1_000, "assignor": "uniform"}
    second = {"members_before": 1, "bumped_ms": 4_000, "target_ms": 4_500, "ended_ms": 9_500, "assignor": "uniform"}
    counts = {"moved": 2, "revoked_and_returned": 0, "kept": 3, "new": 0, "outcome": "completed", "store": "new"}
    write_rows(tmp_path, "reconciliations", [first | counts, second | counts])
    write_rows(
        tmp_path,
        "gaps",
        [gap("new", 0, 5_000, 8_000, "reconciling"), gap("new", 0, 0, 1_000, "assigning", was_owned=False)],
    )
    make_written_current(tmp_path)
    statistics = RunStatistics(spark, tmp_path)
    assert [row.p50 for row in statistics.time_without_owner().collect()] == [3.0]
    assert [(row.reason, row.mean_s) for row in statistics.gap_reasons().collect()] == [("reconciling", 3.0)]
    phases = {row.phase: (row.p50, row.value_count) for row in statistics.reconciliation_phases().collect()}
    assert phases == {"target": (0.5, 1), "members": (5.0, 1)}
    [movements] = statistics.partition_movements().collect()
    assert (movements.protocol_name, movements.moved, movements.kept) == ("uniform", 2.0, 3.0)
    assert statistics.rebalance_phases().collect() == []


def write_runs(folder: Path, rows: Sequence[Values]) -> None:
    (folder / "runs").mkdir()
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("store", "cell")),
            *((name, pa.int64()) for name in ("ended_ms", "rebalances", "removals", "live_removals")),
            ("ownerless_s", pa.float64()),
            ("violations", pa.list_(pa.string())),
        ]
    )
    pq.write_table(pa.Table.from_pylist(list(rows), schema), folder / "runs" / "chunk-00000000.parquet")


@pytest.mark.slow
def test_gaps_before_the_first_owner_are_counted_apart(spark: SparkSession, folder: Path) -> None:
    statistics = RunStatistics(spark, folder)
    assert {row.store: row.ownerless_s for row in statistics.runs.collect()} == {"short": 0.0, "long": 5.0}
    reasons = {row.reason: row.mean_s for row in statistics.gap_reasons().collect()}
    assert reasons == {"session-expiry": 2.5, NOT_OWNED_YET: 1.5}


def with_gaps_that_have_not_ended(folder: Path) -> None:
    """Write a partition that is without its owner from 12 s on, one that still waits for its first, and an empty group
    into the store that ends after 20 s."""
    shutil.rmtree(folder / "tables" / VERSION.name / "gaps")
    waiting = gap("long", 1, 15_000, None, "unassigned", was_owned=False)
    write_rows(folder, "gaps", [gap("long", 0, 12_000, None, "join"), waiting, gap("long", 2, 1_000, None, "empty")])


@pytest.mark.slow
def test_a_gap_that_has_not_ended_counts_until_the_last_event_of_its_store(spark: SparkSession, folder: Path) -> None:
    with_gaps_that_have_not_ended(folder)
    statistics = RunStatistics(spark, folder)
    assert [(row.store, row.ownerless_s) for row in statistics.worst_runs().collect()] == [("long", 8.0), ("short", 0)]
    assert {row.reason: row.mean_s for row in statistics.gap_reasons().collect()} == {"join": 4.0, NOT_OWNED_YET: 2.5}


@pytest.mark.slow
def test_a_gap_that_has_not_ended_counts_until_its_simulation_ended(spark: SparkSession, folder: Path) -> None:
    with_gaps_that_have_not_ended(folder)
    row = {"cell": "all", "rebalances": 1, "ownerless_s": 0.0, "violations": [], "ended_ms": 25_000}
    write_runs(folder, [{"store": "short", **row}, {"store": "long", **row}])
    reasons = RunStatistics(spark, folder).gap_reasons().collect()
    assert {row.reason: row.mean_s for row in reasons} == {"join": 6.5, NOT_OWNED_YET: 5.0}


@pytest.mark.slow
def test_stores_have_recordings_if_an_ingest_has_copied_exchanges(spark: SparkSession, folder: Path) -> None:
    (folder / "exchanges" / "store=long").mkdir(parents=True)
    assert not RunStatistics(spark, folder).has_recordings
    (folder / "exchanges" / "store=long" / "blocks-000000.parquet").touch()
    assert RunStatistics(spark, folder).has_recordings


@pytest.mark.slow
def test_gaps_over_time_count_each_run_up_to_its_end(spark: SparkSession, folder: Path) -> None:
    counted = {row.at_s: row for row in RunStatistics(spark, folder).gaps_over_time().collect()}
    assert [counted[at].value_count for at in (10.0, 10.5, 20.0)] == [2, 1, 1]
    assert counted[17.0].p50 == 1


@pytest.mark.slow
def test_a_partition_counts_once_where_one_of_its_gaps_follows_another(spark: SparkSession, folder: Path) -> None:
    shutil.rmtree(folder / "tables" / VERSION.name / "gaps")
    write_rows(folder, "gaps", [gap("long", 0, 12_000, 15_000, "join"), gap("long", 0, 15_000, 20_000, "sync")])
    counted = {row.at_s: row for row in RunStatistics(spark, folder).gaps_over_time().collect()}
    assert [counted[at].p95 for at in (14.0, 15.0, 16.0)] == [1, 1, 1]


@pytest.mark.slow
def test_a_simulation_goes_on_after_its_last_event(spark: SparkSession, folder: Path) -> None:
    row = {"cell": "all", "rebalances": 1, "ownerless_s": 0.0, "violations": [], "ended_ms": 20_000}
    write_runs(folder, [{"store": "short", **row}, {"store": "long", **row}])
    counted = {row.at_s: row for row in RunStatistics(spark, folder).gaps_over_time().collect()}
    assert counted[17.0].value_count == 2


@pytest.mark.slow
def test_removals_of_live_members_are_means_of_runs_that_know_them(spark: SparkSession, folder: Path) -> None:
    row = {"rebalances": 1, "ownerless_s": 0.0, "violations": [], "ended_ms": 1}
    counts = {"a": [(4, 3), (1, 0), (1, 0)], "b": [(2, None)], "c": [(0, 0)]}
    write_runs(
        folder,
        [
            {**row, "store": f"{cell}{seed}", "cell": cell, "removals": removals, "live_removals": live}
            for cell, runs in counts.items()
            for seed, (removals, live) in enumerate(runs)
        ],
    )
    found = {each.cell: (each.live, each.ended) for each in RunStatistics(spark, folder).removals().collect()}
    assert found == {"a": (1.0, 1.0), "c": (0.0, 0.0)}


@pytest.mark.slow
def test_a_run_whose_group_was_never_stable_counts_as_failed_only(spark: SparkSession, folder: Path) -> None:
    stable = {"store": "long", "cell": "good", "rebalances": 2, "ownerless_s": 5.0, "violations": []}
    never = {"store": "short", "cell": "bad", "rebalances": 0, "ownerless_s": 0.0, "violations": ["Why."]}
    write_runs(folder, [{**stable, "ended_ms": 1}, {**never, "ended_ms": 1}])
    statistics = RunStatistics(spark, folder)
    assert [(row.cell, row.p50) for row in statistics.time_without_owner().collect()] == [("good", 5.0)]
    assert [tuple(row) for row in statistics.failed_runs().collect()] == [("bad", 1, 1, "short", "Why.")]
