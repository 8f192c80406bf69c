"""Reads the recorded exchanges of all ingested stores with Spark."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regroup.pipeline.bronze.store_progress import store_paths
from regroup.pipeline.locations.location import LocationLike, location_of
from regroup.pipeline.output_folder import check_format
from regroup.pipeline.source.columns import EXCHANGE_SCHEMA, STORE_EXCHANGE_SCHEMA, spark_ddl

EXCHANGES_DDL: Final = spark_ddl(STORE_EXCHANGE_SCHEMA)


def read_exchanges(spark: SparkSession, folder: LocationLike) -> DataFrame | None:
    """The rows of all ingested exchanges with their store: `STORE_EXCHANGE_SCHEMA`. None if no store has recorded any.

    A later row of an exchange replaces an earlier one with the same connection and number, and lacks what that has.
    """
    place = location_of(folder, spark)
    check_format(place)
    if not (place / "exchanges").files("blocks-*.parquet", below=True):
        return None
    rows = spark.read.schema(EXCHANGES_DDL).parquet((place / "exchanges").for_spark)
    paths = spark.createDataFrame(list(store_paths(place).items()), "store STRING, path STRING")
    path = F.coalesce("path", "store").alias("store")  # a first ingest that was killed has left no path
    return rows.join(F.broadcast(paths), "store", "left").select(path, *EXCHANGE_SCHEMA.names)
