"""Makes every Spark session, so that all commands and tests have the same settings.

with spark_session() as spark:                          # this machine, all cores
with spark_session("spark://host:7077") as spark:       # a cluster
with spark_session() as spark:                          # under spark-submit: the master that it was given
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from regroup.pipeline.source.data_source import RegroupSource
from regroup.pipeline.spark.java import find_java_home

__all__ = ["InvalidMaster", "spark_session"]

LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")

COMMON_SETTINGS: Final[dict[str, str]] = {
    # Off by default in PySpark; with it off Spark refuses a source that has `pushFilters`. See `source/data_source.py`.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # Else a store named 007 becomes the number 7.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
LOCAL_SETTINGS: Final[dict[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "2g",
}

MASTER_PATTERN: Final = re.compile(
    r"local | local\[(?:\d+|\*)(?:,\d+)?\] | local-cluster\[\d+,\d+,\d+\] | (?:spark|k8s)://\S+ | yarn", re.VERBOSE
)


class InvalidMaster(Exception):
    """Raised for a master URL that has no form which Spark accepts."""


@contextmanager
def spark_session(
    master: str | None = None, *, quiet: bool = True, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session that has the format `regroup`. It is stopped afterwards, unless it existed before.

    `master` is Spark's master URL, `local[2]` or `spark://…`; by default the one given to spark-submit, else
    `local[*]`. `settings` are Spark's, and override all others. Raises JavaNotFound, InvalidMaster.
    """
    # Spark itself checks the master only after Java has started, and raises a long trace.
    if master is not None and not MASTER_PATTERN.fullmatch(master):
        raise InvalidMaster(
            f"invalid Spark master: {master!r}; use local[2], local[*], spark://host:7077, yarn or k8s://…."
        )
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        # Workers must run this Python, not the first one on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ["JAVA_HOME"] = str(find_java_home())
    chosen = master or (None if submitted else "local[*]")
    builder = SparkSession.builder.appName("regroup")
    if chosen:
        builder = builder.master(chosen)
    for name, value in {**default_settings(chosen, quiet), **(settings or {})}.items():
        builder = builder.config(name, value)
    existed = SparkSession.getActiveSession() is not None
    spark = builder.getOrCreate()
    try:
        if quiet:
            spark.sparkContext.setLogLevel("OFF")
        spark.dataSource.register(RegroupSource)
        yield spark
    finally:
        if not existed:
            spark.stop()


def default_settings(master: str | None, quiet: bool) -> dict[str, str]:
    """Spark's settings for a session with this master. Where a cluster has settings of its own, they are left alone."""
    if master is None or not master.startswith("local"):
        return COMMON_SETTINGS
    log = {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS}"} if quiet else {}
    return {**COMMON_SETTINGS, **LOCAL_SETTINGS, **log}
