"""From bronze to the tables: one fold of every group, then plain Parquet for each table."""

import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.bronze import ingest
from regroup.pipeline.bronze.stamp import put_stamp, remove_stamp, stamp_of
from regroup.pipeline.gold.folding import fold
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.violations import violations
from regroup.pipeline.spark.progress import Progress, watched

AT_ONCE: Final = 4
"""Small jobs that run side by side; one alone would leave cores idle."""

NAMES: Final = (*TABLES, "violations")


def build(
    spark: SparkSession, folder: Path, events: DataFrame | None = None, *, progress: Progress | None = None
) -> None:
    """Write every table anew, from what has been taken in (or from these events)."""
    stamp = stamp_of(folder)
    remove_stamp(folder)
    source = ingest.events(spark, folder) if events is None else events
    rows = folder / "_folded"
    try:
        folded = fold(source).write.mode("overwrite").partitionBy("table")
        watched(spark, "folding", partial(folded.parquet, str(rows)), progress)
        whole = spark.read.schema(fold(source).schema).parquet(str(rows))
        jobs: list[Callable[[], None]] = [
            partial(write, of_table(whole, name), folder / "tables" / name) for name in TABLES
        ]
        found = violations(of_table(whole, "steps"), source, of_table(whole, "faults"))
        jobs.append(partial(write, found, folder / "tables" / "violations"))
        at_once(spark, jobs)
        put_stamp(folder, stamp)
    finally:
        shutil.rmtree(rows, ignore_errors=True)


def at_once(spark: SparkSession, jobs: Iterable[Callable[[], None]]) -> None:
    """All of them, some side by side; once it is clear that the tables will not be whole, no more than has begun."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            list(pool.map(lambda job: job(), jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            spark.sparkContext.cancelAllJobs()
            raise


def of_table(rows: DataFrame, name: str) -> DataFrame:
    return rows.where(rows["table"] == name).select("store", "group", f"{name}.*")


def write(table: DataFrame, target: Path) -> None:
    table.write.mode("overwrite").parquet(str(target))


def table(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """A table that has been built."""
    return spark.read.parquet(str(folder / "tables" / name))
