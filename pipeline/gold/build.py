"""Builds one version of all tables of a folder: folds the events of every group, and writes each table as Parquet."""

from contextlib import suppress
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.gold.folding import fold_groups, topics_by_store
from regroup.pipeline.gold.new_events import plan_of_folder, plan_of_given
from regroup.pipeline.gold.recorded.recorded_tables import write_recorded_tables
from regroup.pipeline.gold.table_files import TABLE_SCHEMAS, write_empty_table
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.versions import TablesVersion, files_of_version, make_current, new_version
from regroup.pipeline.locations.location import Location, LocationLike, location_of
from regroup.pipeline.output_folder import events_fingerprint, exclusive_tables_writer, prepare_folder
from regroup.pipeline.spark.progress import JobProgress, run_with_progress
from regroup.storage.errors import StoreFailed

TABLE_NAMES: Final = (*TABLES, "violations")


def build_tables(
    spark: SparkSession,
    folder: LocationLike,
    events: DataFrame | None = None,
    *,
    is_full: bool = False,
    progress: JobProgress | None = None,
) -> tuple[str, ...]:
    """Build every table from all events that were ingested or simulated, or from the given `events`.

    Events that the present version was built from are not folded again, unless `is_full`. Readers take the new version
    once it is complete; an older one stays until it is removed. Raises a StoreError: StoreLocked if another build or a
    removal of old versions runs in a folder on a disk, NewerVersionIsCurrent if another build ended first elsewhere.

    Returns the stores whose last ingest is not complete, since it was interrupted, or still runs: the tables have only
    the events of the ingests before.
    """
    place = location_of(folder, spark)
    prepare_folder(place)
    with exclusive_tables_writer(place):
        return write_version(spark, place, events, is_full, progress)


def write_version(
    spark: SparkSession, place: Location, events: DataFrame | None, is_full: bool, progress: JobProgress | None
) -> tuple[str, ...]:
    """Write the next version and make it current, as `build_tables` says. After an error nothing of it is left."""
    fingerprint, version = events_fingerprint(place), new_version(place)
    try:
        if events is None:
            plan = plan_of_folder(spark, place, version, is_full=is_full)
        else:
            plan = plan_of_given(events, version)
        topics = topics_by_store(plan.topics)
        fold = partial(fold_groups, plan.events, topics, plan.target, plan.states)
        rows = run_with_progress(spark, "folding", fold, progress)
        linked = plan.link_complete_rows()
        for name in TABLE_SCHEMAS:
            if not rows.get(name) and name not in linked:
                write_empty_table(version, name)
        write_recorded_tables(spark, place, version, plan, progress)
        plan.keep_state()
        make_current(place, TablesVersion(version.name, fingerprint, TABLE_NAMES, files_of_version(version)))
    except BaseException:
        with suppress(StoreFailed):
            version.remove_folder()
        raise
    return plan.incomplete
