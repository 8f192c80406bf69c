"""The data source `regroup` in a Spark session: many stores, filters, and streams."""

import asyncio
import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from regroup.storage.sqlite.inline import open_inline_store
from tests.pipeline.histories import crash_history, write_store


def positions(frame: DataFrame) -> list[tuple[str, int]]:
    return sorted((Path(row.store).name, row.position) for row in frame.select("store", "position").collect())


def stored_positions(path: Path, *, types: tuple[str, ...] = (), after: int = 0) -> list[tuple[str, int]]:
    async def read() -> list[tuple[str, int]]:
        async with await open_inline_store(path, read_only=True) as store:
            return [(path.name, each.position) async for each in store.read(after=after, types=types or None)]

    return asyncio.run(read())


def load(spark: SparkSession, path: object, **options: object) -> DataFrame:
    reader = spark.read.format("regroup")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(path))


@pytest.mark.slow
def test_many_stores_are_one_table(spark: SparkSession, stores: Path) -> None:
    expected = sorted(row for path in stores.glob("*.db") for row in stored_positions(path))
    assert positions(load(spark, f"{stores}/*.db", rows_per_split=25)) == expected
    assert positions(spark.read.format("regroup").load([str(path) for path in stores.glob("*.db")])) == expected


@pytest.mark.slow
def test_options_and_pushed_filters_select_the_same_events(spark: SparkSession, stores: Path) -> None:
    path = stores / "range.db"
    types = ("generation-started", "member-removed")
    expected = stored_positions(path, types=types, after=20)
    assert {*types} == {row.type for row in load(spark, path, type=",".join(types)).select("type").collect()}
    assert positions(load(spark, path, type=",".join(types), after=20, group="lab")) == expected
    pushed = (
        load(spark, path, pushdown="true")
        .where("position > 20")
        .where("type IN ('generation-started', 'member-removed')")
    )
    assert positions(pushed) == expected
    assert "Filter (" not in pushed._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]  # py4j


@pytest.mark.slow
def test_one_load_without_pushdown_serves_two_filters_at_once(spark: SparkSession, stores: Path) -> None:
    frame = load(spark, stores / "range.db")
    types = ("generation-started", "rebalance-started")
    first, second = (frame.where(frame.type == each) for each in types)
    assert {row.type for row in first.union(second).select("type").distinct().collect()} == set(types)


@pytest.mark.slow
def test_spark_4_3_applies_a_pushed_filter_to_the_next_query_of_the_same_load(
    spark: SparkSession, stores: Path
) -> None:
    """Why `pushdown` is not the default. If this test fails, Spark is fixed, and it can be."""
    frame = load(spark, stores / "range.db", pushdown="true")
    filtered = frame.where("type = 'generation-started'").count()
    assert 0 < filtered < load(spark, stores / "range.db").count()
    assert frame.count() == filtered


@pytest.mark.slow
def test_a_foreign_file_among_stores_fails_the_job_or_is_skipped(
    spark: SparkSession, stores: Path, tmp_path: Path
) -> None:
    shutil.copytree(stores, tmp_path, dirs_exist_ok=True)
    (tmp_path / "foreign.db").write_text("not a store, but long enough to have a header if it were one " * 3)
    with pytest.raises(PySparkException, match=r"foreign\.db is not a store"):
        load(spark, f"{tmp_path}/*.db").count()
    assert load(spark, f"{tmp_path}/*.db", on_error="skip").count() == load(spark, f"{stores}/*.db").count()


@pytest.mark.slow
def test_a_restarted_stream_loses_and_repeats_no_event(spark: SparkSession, tmp_path: Path) -> None:
    records, path = crash_history("range", 9), tmp_path / "live.db"
    write_store(path, records[:40])
    stream_available(spark, path, tmp_path)
    assert positions(spark.read.parquet(str(tmp_path / "out"))) == stored_positions(path)
    # As if it had been killed after writing its last batch and before noting it: the batch is written again.
    for file in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / file).unlink()
    write_store(path, records[40:])
    stream_available(spark, path, tmp_path)
    assert positions(spark.read.parquet(str(tmp_path / "out"))) == stored_positions(path)


def stream_available(spark: SparkSession, path: Path, folder: Path) -> None:
    """Stream the available events into a folder, from the checkpoint on.

    Spark gives the process that plans a stream ten seconds to start, and has no setting for it. On a busy machine that
    can take longer; then the stream is started again.
    """
    stream = spark.readStream.format("regroup").option("rows_per_batch", 30).load(str(path)).writeStream
    stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    for _ in range(20):
        try:
            stream.format("parquet").start(str(folder / "out")).awaitTermination()
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
        else:
            return
    pytest.fail("Spark could not start the process that plans a stream")
