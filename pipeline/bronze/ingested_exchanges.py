"""Reads the recorded exchanges of all ingested stores with Spark, and makes a hash of those of each store."""

import hashlib
from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regroup.pipeline.bronze.exchange_files import written_files
from regroup.pipeline.bronze.store_progress import store_paths
from regroup.pipeline.locations.location import Location, LocationLike, location_of
from regroup.pipeline.output_folder import check_format
from regroup.pipeline.source.columns import EXCHANGE_SCHEMA, STORE_EXCHANGE_SCHEMA, spark_ddl

EXCHANGES_DDL: Final = spark_ddl(STORE_EXCHANGE_SCHEMA)


def read_exchanges(spark: SparkSession, folder: LocationLike, names: Collection[str] | None = None) -> DataFrame | None:
    """The rows of all ingested exchanges with their store: `STORE_EXCHANGE_SCHEMA`. None if no store has recorded any.

    With `names` only those of these stores are read, given by the name of their files. A later row of an exchange
    replaces an earlier one with the same connection and number, and lacks what that has.
    """
    place = location_of(folder, spark)
    check_format(place)
    if not (place / "exchanges").files("blocks-*.parquet", below=True):
        return None
    rows = spark.read.schema(EXCHANGES_DDL).parquet((place / "exchanges").for_spark)
    if names is not None:
        chosen = spark.createDataFrame([(each,) for each in sorted(names)], "store STRING")
        rows = rows.join(F.broadcast(chosen), "store", "left_semi")
    paths = spark.createDataFrame(list(store_paths(place).items()), "store STRING, path STRING")
    path = F.coalesce("path", "store").alias("store")  # a first ingest that was killed has left no path
    return rows.join(F.broadcast(paths), "store", "left").select(path, *EXCHANGE_SCHEMA.names)


def exchange_versions(folder: Location) -> dict[str, str]:
    """A hash of the ingested exchanges of each store that has any, by the name of the store's files.

    The hash changes if the files hold other blocks, or if the tables have another path for the store.
    """
    paths = store_paths(folder)
    found = {}
    for place in (folder / "exchanges").folders():
        name = place.name.removeprefix("store=")
        files = [(file.place.name, file.after, file.through, file.last_block_hash) for file in written_files(place)]
        if files:
            found[name] = hashlib.sha256(repr((paths.get(name), files)).encode()).hexdigest()
    return found
