"""Writes the tables of recorded exchanges: `refused_requests`, `heartbeats` and `lag`."""

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regroup.pipeline.bronze.ingest import read_bronze
from regroup.pipeline.bronze.ingested_exchanges import exchange_versions, read_exchanges
from regroup.pipeline.bronze.store_progress import store_paths
from regroup.pipeline.gold.new_events import FoldPlan
from regroup.pipeline.gold.recorded.exchange_facts import FACTS_SCHEMA, facts_of_batches
from regroup.pipeline.gold.recorded.heartbeats import heartbeats
from regroup.pipeline.gold.recorded.lag import lag_table
from regroup.pipeline.gold.table_files import TABLE_SCHEMAS
from regroup.pipeline.locations.location import Location
from regroup.pipeline.source.columns import spark_ddl
from regroup.pipeline.spark.progress import JobProgress, run_with_progress
from regroup.storage.errors import StoreFailed

TASKS_PER_CORE: Final = 4
FACTS: Final = "exchange_facts"
"""The folder for what all three tables are made of. It is removed at the end."""


def write_recorded_tables(
    spark: SparkSession, folder: Location, version: Location, plan: FoldPlan, progress: JobProgress | None = None
) -> None:
    """Make the tables of recorded exchanges in a version, which has its other tables already.

    They stay empty if no ingested store has recorded exchanges. The rows of stores that have not changed since the
    version that the plan continues are taken from there: with none that has changed, as the files that are linked
    already. Events are read up to where the plan folds them, since what an ingest that is not complete has written may
    lack events in between.
    """
    names = exchange_versions(folder).keys() if plan.sources is None else plan.sources.exchanges.keys()
    changed = names - plan.unchanged
    exchanges = read_exchanges(spark, folder, changed) if changed else None
    if exchanges is None:
        return
    place = version / FACTS
    run_with_progress(spark, "decoding exchanges", partial(write_facts, exchanges, place), progress)
    facts = spark.read.schema(spark_ddl(FACTS_SCHEMA)).parquet(place.for_spark)
    stores = facts.select("store").distinct()
    events = read_bronze(spark, folder, plan.blocks, plan.through).join(stores, "store", "left_semi")
    commits = spark.read.parquet((version / "commits").for_spark).join(stores, "store", "left_semi")
    schema = TABLE_SCHEMAS["heartbeats"]
    frames = {
        "refused_requests": facts.where("kind = 'refused'"),
        "heartbeats": heartbeats(events, facts, schema, spark_ddl(schema)),
        "lag": lag_table(commits, events, facts),
    }
    for name, frame in frames.items():
        rows = frame.select(*TABLE_SCHEMAS[name].names)
        if plan.earlier is not None and plan.unchanged:
            rows = rows.unionByName(rows_of_stores(spark, folder, plan.earlier / name, plan.unchanged))
        rows.write.mode("overwrite").parquet((version / name).for_spark)
    with suppress(StoreFailed):  # what is left of it is in no reader's way
        place.remove_folder()


def rows_of_stores(spark: SparkSession, folder: Location, table: Location, names: Collection[str]) -> DataFrame:
    """The rows of a table that are about these stores, given by the names of their files."""
    paths = store_paths(folder)
    chosen = spark.createDataFrame([(paths.get(each, each),) for each in sorted(names)], "store STRING")
    rows = spark.read.schema(spark_ddl(TABLE_SCHEMAS[table.name])).parquet(table.for_spark)
    return rows.join(F.broadcast(chosen), "store", "left_semi")


def write_facts(exchanges: DataFrame, target: Location) -> None:
    """Decode all exchanges, those of a connection in one task, and write their facts."""
    cores = exchanges.sparkSession.sparkContext.defaultParallelism
    in_order = exchanges.repartition(TASKS_PER_CORE * cores, "store", "connection").sortWithinPartitions(
        "store", "connection", "number", "block", "row"
    )
    facts = in_order.mapInArrow(facts_of_batches, spark_ddl(FACTS_SCHEMA))
    facts.write.parquet(target.for_spark)
