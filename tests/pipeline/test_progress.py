"""How many of a job's tasks are done is told while it runs."""

import time
from pathlib import Path

from pyspark.sql import SparkSession

from regroup.pipeline.spark.progress import watched


def test_a_task_that_is_done_is_told_while_another_runs(spark: SparkSession, tmp_path: Path) -> None:
    told = tmp_path / "told"
    seen: list[tuple[str, int, int | None]] = []

    def progress(what: str, completed: int, total: int | None) -> None:
        seen.append((what, completed, total))
        if completed:
            told.touch()

    def task(number: int) -> None:
        """The second ends when it has been told that the first has ended."""
        while number == 2 and not told.exists():
            time.sleep(0.02)

    tasks = spark.sparkContext.parallelize([1, 2], 2)
    watched(spark, "counting", lambda: tasks.foreach(task), progress)
    assert ("counting", 1, 2) in seen
