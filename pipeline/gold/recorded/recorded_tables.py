"""Writes the tables of recorded exchanges: `refused_requests`, `heartbeats` and `lag`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.bronze.blocks import WrittenBlock
from regroup.pipeline.bronze.ingest import read_bronze
from regroup.pipeline.bronze.ingested_exchanges import read_exchanges
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
    spark: SparkSession,
    folder: Location,
    version: Location,
    blocks: Mapping[str, Sequence[WrittenBlock]] | None = None,
    through: Mapping[str, int] | None = None,
    progress: JobProgress | None = None,
) -> None:
    """Replace the empty tables of recorded exchanges in a version, which has the table `commits` already.

    They stay empty if no ingested store has recorded exchanges. Events are read as by `read_bronze`, from these blocks
    up to these positions: what an ingest that is not complete has written may lack events in between.
    """
    exchanges = read_exchanges(spark, folder)
    if exchanges is None:
        return
    place = version / FACTS
    run_with_progress(spark, "decoding exchanges", partial(write_facts, exchanges, place), progress)
    facts = spark.read.schema(spark_ddl(FACTS_SCHEMA)).parquet(place.for_spark)
    events = read_bronze(spark, folder, blocks, through)
    of_stores = events.join(facts.select("store").distinct(), "store", "left_semi")
    schema = TABLE_SCHEMAS["heartbeats"]
    frames = {
        "refused_requests": facts.where("kind = 'refused'"),
        "heartbeats": heartbeats(of_stores, facts, schema, spark_ddl(schema)),
        "lag": lag_table(spark.read.parquet((version / "commits").for_spark), of_stores, facts),
    }
    for name, frame in frames.items():
        frame.select(*TABLE_SCHEMAS[name].names).write.mode("overwrite").parquet((version / name).for_spark)
    with suppress(StoreFailed):  # what is left of it is in no reader's way
        place.remove_folder()


def write_facts(exchanges: DataFrame, target: Location) -> None:
    """Decode all exchanges, those of a connection in one task, and write their facts."""
    cores = exchanges.sparkSession.sparkContext.defaultParallelism
    in_order = exchanges.repartition(TASKS_PER_CORE * cores, "store", "connection").sortWithinPartitions(
        "store", "connection", "number", "block", "row"
    )
    facts = in_order.mapInArrow(facts_of_batches, spark_ddl(FACTS_SCHEMA))
    facts.write.parquet(target.for_spark)
