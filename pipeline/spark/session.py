"""The one place where a Spark session is made, so that every command and every test has the same one.

with session() as spark:                          # this machine, all cores
with session("spark://host:7077") as spark:       # a cluster
with session() as spark:                          # under spark-submit: whatever it was told
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
from regroup.pipeline.spark.java import java_home

LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")

ALWAYS: Final[dict[str, str]] = {
    # Off in PySpark unless asked for, and refused by Spark where a source could do it. See `source` for its use.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # A store named 007 is not number 7.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
ON_ONE_MACHINE: Final[dict[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "2g",
}

MASTERS: Final = re.compile(
    r"local | local\[(?:\d+|\*)(?:,\d+)?\] | local-cluster\[\d+,\d+,\d+\] | (?:spark|k8s)://\S+ | yarn", re.VERBOSE
)


class NoSpark(Exception):
    """There is no Spark at the address that was asked for, and there cannot be one."""


@contextmanager
def session(
    master: str | None = None, *, quiet: bool = True, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session that knows the format `regroup`, stopped in the end, unless it was there before.

    `master` is Spark's: `local[2]`, `spark://…`. Without it the one that spark-submit was given counts, else
    `local[*]`. `settings` are Spark's own, and have the last word. Raises NoJava, NoSpark.
    """
    was_there = SparkSession.getActiveSession() is not None
    spark = started(master, quiet=quiet, settings=settings or {})
    try:
        yield spark
    finally:
        if not was_there:
            spark.stop()


def started(master: str | None, *, quiet: bool, settings: Mapping[str, str]) -> SparkSession:
    check_master(master)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        prepare_environment()
    chosen = master or (None if submitted else "local[*]")
    builder = SparkSession.builder.appName("regroup")
    if chosen:
        builder = builder.master(chosen)
    for name, value in {**settings_for(chosen, quiet), **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if quiet:
        spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(RegroupSource)
    return spark


def check_master(master: str | None) -> None:
    """Spark itself says it with a long trace, and only after Java has started. Raises NoSpark."""
    if master is not None and not MASTERS.fullmatch(master):
        raise NoSpark(f"There is no Spark at {master!r}: give local[2], local[*], spark://host:7077, yarn or k8s://….")


def prepare_environment() -> None:
    """Workers run this Python, not whichever comes first on PATH; and there is a Java."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(java_home())


def settings_for(master: str | None, quiet: bool) -> dict[str, str]:
    """A cluster's own settings are left to the cluster."""
    if master is None or not master.startswith("local"):
        return ALWAYS
    spoken = {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS}"} if quiet else {}
    return {**ALWAYS, **ON_ONE_MACHINE, **spoken}
