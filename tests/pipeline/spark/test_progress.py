"""Progress of a Spark job is reported while it runs."""

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from regroup.pipeline.spark.progress import run_with_progress


@pytest.mark.slow
def test_a_completed_task_is_reported_while_another_runs(spark: SparkSession, tmp_path: Path) -> None:
    reported = tmp_path / "reported"
    reports: list[tuple[str, int, int | None]] = []

    def progress(what: str, completed: int, total: int | None) -> None:
        reports.append((what, completed, total))
        if completed:
            reported.touch()

    def task(number: int) -> None:
        """The second task ends only after the end of the first was reported."""
        while number == 2 and not reported.exists():
            time.sleep(0.02)

    tasks = spark.sparkContext.parallelize([1, 2], 2)
    run_with_progress(spark, "counting", lambda: tasks.foreach(task), progress)
    assert ("counting", 1, 2) in reports
