"""Where a folder's events are: taken in from stores, or simulated by a campaign."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.bronze import ingest
from regroup.pipeline.campaign import run


def events_in(spark: SparkSession, folder: Path) -> DataFrame:
    """All of a folder's events, in the columns of the format `regroup`."""
    return ingest.events(spark, folder) if (folder / "bronze").is_dir() else run.events(spark, folder)
