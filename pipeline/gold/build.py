"""Builds all tables of a folder: one fold of every group's events, then Parquet files for each table."""

import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.bronze.ingest import read_bronze
from regroup.pipeline.campaign.runner import read_events
from regroup.pipeline.gold.folding import fold_groups
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.violations import find_violations
from regroup.pipeline.output_folder import (
    check_format,
    events_fingerprint,
    prepare_folder,
    write_stamp,
)
from regroup.pipeline.spark.progress import JobProgress, run_with_progress

CONCURRENT_JOBS: Final = 4
"""The jobs that write the tables are small; one alone would not use all cores."""

TABLE_NAMES: Final = (*TABLES, "violations")


def build_tables(
    spark: SparkSession, folder: Path, events: DataFrame | None = None, *, progress: JobProgress | None = None
) -> None:
    """Write every table, from the given events or from all that were ingested or simulated. Raises a StoreError."""
    prepare_folder(folder)
    fingerprint = events_fingerprint(folder)
    write_stamp(folder, "")
    if events is None:
        events = read_bronze(spark, folder) if (folder / "bronze").is_dir() else read_events(spark, folder)
    path = folder / "_folded"
    try:
        folded = fold_groups(events)
        writer = folded.write.mode("overwrite").partitionBy("table")
        run_with_progress(spark, "folding", partial(writer.parquet, str(path)), progress)
        rows = spark.read.schema(folded.schema).parquet(str(path))
        tables = {name: rows.where(rows["table"] == name).select("store", "group", f"{name}.*") for name in TABLES}
        tables["violations"] = find_violations(tables["transitions"], events, tables["fold_errors"])
        run_concurrently(
            spark,
            [
                partial(table.write.mode("overwrite").parquet, str(folder / "tables" / name))
                for name, table in tables.items()
            ],
        )
        write_stamp(folder, fingerprint)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run_concurrently(spark: SparkSession, jobs: Iterable[Callable[[], None]]) -> None:
    """Run all jobs, some at the same time. If one fails, the others are cancelled."""
    with ThreadPoolExecutor(CONCURRENT_JOBS) as pool:
        try:
            list(pool.map(lambda job: job(), jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            spark.sparkContext.cancelAllJobs()
            raise


def read_table(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """A table that has been built. Raises UnsupportedFolderVersion."""
    check_format(folder)
    return spark.read.parquet(str(folder / "tables" / name))
