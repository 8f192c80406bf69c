"""Ingesting with Spark what bronze does not have yet."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from regroup.pipeline.bronze import ingest
from regroup.pipeline.bronze.store_progress import StoreReplaced
from tests.pipeline.histories import crash_history, write_store


def modified_at(folder: Path) -> dict[Path, int]:
    """When each data file was last written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.*") if path.suffix in (".parquet", ".json")}


@pytest.mark.slow
def test_a_second_ingest_changes_nothing_and_a_grown_store_adds_its_new_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    records, out = crash_history("range", 11), tmp_path / "out"
    write_store(tmp_path / "a.db", records[:50])
    assert ingest.ingest(spark, f"{tmp_path}/*.db", out).new_events == 50
    before = modified_at(out)
    assert ingest.ingest(spark, f"{tmp_path}/*.db", out).new_events == 0
    assert modified_at(out) == before
    write_store(tmp_path / "a.db", records[50:])
    assert ingest.ingest(spark, f"{tmp_path}/*.db", out).new_events == len(records) - 50
    positions = sorted(row.position for row in ingest.read_bronze(spark, out).select("position").collect())
    assert positions == list(range(1, len(records) + 1))
    (tmp_path / "a.db").unlink()
    write_store(tmp_path / "a.db", crash_history("range", 12))
    with pytest.raises(StoreReplaced, match="Give it another name"):
        ingest.ingest(spark, f"{tmp_path}/*.db", out)
