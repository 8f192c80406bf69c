"""Builds one version of all tables of a folder: folds the events of every group, and writes each table as Parquet."""

from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.bronze.ingest import read_bronze
from regroup.pipeline.campaign.runner import read_events
from regroup.pipeline.gold.folding import fold_groups
from regroup.pipeline.gold.recorded.recorded_tables import write_recorded_tables
from regroup.pipeline.gold.table_files import TABLE_SCHEMAS, write_empty_table
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.versions import TablesVersion, make_current, new_version
from regroup.pipeline.gold.violations import find_violations
from regroup.pipeline.locations.location import LocationLike, location_of
from regroup.pipeline.output_folder import events_fingerprint, prepare_folder
from regroup.pipeline.spark.progress import JobProgress, run_with_progress

TABLE_NAMES: Final = (*TABLES, "violations")


def build_tables(
    spark: SparkSession, folder: LocationLike, events: DataFrame | None = None, *, progress: JobProgress | None = None
) -> None:
    """Build every table from `events`, by default all that were ingested or simulated. Raises a StoreError.

    Readers take the new version once it is complete; an older one stays until it is removed.
    """
    place = location_of(folder, spark)
    prepare_folder(place)
    fingerprint, version = events_fingerprint(place), new_version(place)
    if events is None:
        events = read_bronze(spark, place) if (place / "bronze").is_folder() else read_events(spark, place)
    try:
        rows = run_with_progress(spark, "folding", partial(fold_groups, events, version), progress)
        for name in TABLE_SCHEMAS:
            if not rows.get(name):
                write_empty_table(version, name)
        read = ("transitions", "number_gaps", "fold_errors", "consumer_violations")
        violations = find_violations(*(spark.read.parquet((version / name).for_spark) for name in read))
        violations.coalesce(1).write.parquet((version / "violations").for_spark)
        for name in set(TABLE_SCHEMAS) - set(TABLES):
            (version / name).remove_folder()
        write_recorded_tables(spark, place, version, progress)
        make_current(place, TablesVersion(version.name, fingerprint, TABLE_NAMES))
    except BaseException:
        version.remove_folder()
        raise
