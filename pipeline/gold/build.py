"""Builds a version of all tables of a folder: one fold of every group's events, then Parquet files for each table."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.bronze.ingest import read_bronze
from regroup.pipeline.campaign.runner import read_events
from regroup.pipeline.gold.folding import fold_groups
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.versions import TablesVersion, make_current, new_version
from regroup.pipeline.gold.violations import find_violations
from regroup.pipeline.locations.location import LocationLike, location_of
from regroup.pipeline.output_folder import events_fingerprint, prepare_folder
from regroup.pipeline.spark.progress import JobProgress, run_with_progress

CONCURRENT_JOBS: Final = 4
"""The jobs that write the tables are small; one alone would not use all cores."""

TABLE_NAMES: Final = (*TABLES, "violations")


def build_tables(
    spark: SparkSession, folder: LocationLike, events: DataFrame | None = None, *, progress: JobProgress | None = None
) -> None:
    """Write every table, from the given events or from all that were ingested or simulated. Raises a StoreError.

    Readers take the new version once it is complete; an older one stays until it is removed.
    """
    place = location_of(folder, spark)
    prepare_folder(place)
    fingerprint, version = events_fingerprint(place), new_version(place)
    if events is None:
        events = read_bronze(spark, place) if (place / "bronze").is_folder() else read_events(spark, place)
    folded_rows = version / "_folded"
    try:
        folded = fold_groups(events)
        writer = folded.write.mode("overwrite").partitionBy("table")
        run_with_progress(spark, "folding", partial(writer.parquet, folded_rows.for_spark), progress)
        rows = spark.read.schema(folded.schema).parquet(folded_rows.for_spark)
        tables = {name: rows.where(rows["table"] == name).select("store", "group", f"{name}.*") for name in TABLES}
        tables["violations"] = find_violations(tables["transitions"], events, tables["fold_errors"])
        run_concurrently(
            spark,
            [partial(table.write.parquet, (version / name).for_spark) for name, table in tables.items()],
        )
        folded_rows.remove_folder()
        make_current(place, TablesVersion(version.name, fingerprint, TABLE_NAMES))
    except BaseException:
        version.remove_folder()
        raise


def run_concurrently(spark: SparkSession, jobs: Iterable[Callable[[], None]]) -> None:
    """Run all jobs, some at the same time. If one fails, the others are cancelled."""
    with ThreadPoolExecutor(CONCURRENT_JOBS) as pool:
        try:
            list(pool.map(lambda job: job(), jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            spark.sparkContext.cancelAllJobs()
            raise
