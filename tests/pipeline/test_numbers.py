"""What a report counts, from tables that are small enough to be counted by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.report.numbers import NOT_OWNED_YET, Numbers

Values = Mapping[str, object]


def keep(folder: Path, name: str, rows: Sequence[Values]) -> None:
    target = folder / "tables" / name
    target.mkdir(parents=True)
    schema = pa.schema([("store", pa.string()), ("group", pa.string()), *TABLES[name].struct])
    pq.write_table(pa.Table.from_pylist([{"group": "lab", **row} for row in rows], schema), target / "rows.parquet")


def gap(store: str, partition: int, from_ms: int, to_ms: int, why: str = "silence") -> Values:
    return {"store": store, "topic": "orders", "partition": partition, "from_ms": from_ms, "to_ms": to_ms, "why": why}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of two stores the first ends after 10 s, the second after 20 s, and partition 1 comes late to both."""
    stores = {"short": 10_000, "long": 20_000}
    keep(tmp_path, "groups", [{"store": store} for store in stores])
    keep(tmp_path, "steps", [{"store": store, "at_ms": at} for store, end in stores.items() for at in (0, end)])
    keep(tmp_path, "rebalances", [{"store": store, "sync_end_ms": 1_000} for store in stores])
    owned = {"topic": "orders", "partition": 0, "from_ms": 1_000}
    keep(tmp_path, "ownership", [{"store": "short", **owned}, {"store": "long", **owned}])
    gaps = [gap("long", 0, 15_000, 20_000), gap("long", 1, 5_000, 8_000, "unassigned"), gap("short", 0, 0, 1_000)]
    keep(tmp_path, "gaps", gaps)
    return tmp_path


def runs_in(folder: Path, rows: Sequence[Values]) -> None:
    (folder / "runs").mkdir()
    broken = pa.schema(
        [
            *((name, pa.string()) for name in ("store", "cell")),
            *((name, pa.int64()) for name in ("ended_ms", "rebalances")),
            ("ownerless_s", pa.float64()),
            ("broken", pa.list_(pa.string())),
        ]
    )
    pq.write_table(pa.Table.from_pylist(list(rows), broken), folder / "runs" / "chunk-00000000.parquet")


def test_a_partition_that_nobody_has_owned_yet_is_told_apart(spark: SparkSession, folder: Path) -> None:
    numbers = Numbers(spark, folder)
    assert {row.store: row.ownerless_s for row in numbers.runs.collect()} == {"short": 0.0, "long": 5.0}
    assert {row.why: row.mean_s for row in numbers.causes().collect()} == {"silence": 2.5, NOT_OWNED_YET: 1.5}


def test_a_fan_counts_each_run_up_to_its_end(spark: SparkSession, folder: Path) -> None:
    counted = {row.at_s: row for row in Numbers(spark, folder).fan().collect()}
    assert (counted[10.0]["values"], counted[10.5]["values"], counted[20.0]["values"]) == (2, 1, 1)
    assert counted[17.0].p50 == 1


def test_a_simulation_goes_on_behind_its_last_event(spark: SparkSession, folder: Path) -> None:
    row = {"cell": "all", "rebalances": 1, "ownerless_s": 0.0, "broken": [], "ended_ms": 20_000}
    runs_in(folder, [{"store": "short", **row}, {"store": "long", **row}])
    counted = {row.at_s: row for row in Numbers(spark, folder).fan().collect()}
    assert counted[17.0]["values"] == 2


def test_a_run_whose_group_was_never_stable_does_not_look_best(spark: SparkSession, folder: Path) -> None:
    sound = {"store": "long", "cell": "good", "rebalances": 2, "ownerless_s": 5.0, "broken": [], "ended_ms": 1}
    never = {"store": "short", "cell": "bad", "rebalances": 0, "ownerless_s": 0.0, "broken": ["Why."], "ended_ms": 1}
    runs_in(folder, [sound, never])
    numbers = Numbers(spark, folder)
    assert [(row.cell, row.p50) for row in numbers.without_an_owner().collect()] == [("good", 5.0)]
    assert [tuple(row) for row in numbers.broken().collect()] == [("bad", 1, 1, "short", "Why.")]
