"""Reports the progress of a Spark job while it runs: how many of its tasks are done."""

import threading
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar
from uuid import uuid4

from pyspark import StatusTracker
from pyspark.sql import SparkSession

Result = TypeVar("Result")

JobProgress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with a description of the job, the number of tasks that are done, and the number of all tasks or None."""

POLL_INTERVAL_S: Final = 0.5


def run_with_progress(
    spark: SparkSession, what: str, job: Callable[[], Result], progress: JobProgress | None
) -> Result:
    """Run a Spark job and return its result; another thread reports the job's progress while it runs."""
    if progress is None:
        return job()
    context, job_group = spark.sparkContext, str(uuid4())
    context.setJobGroup(job_group, what)
    tracker, done = context.statusTracker(), threading.Event()

    def poll() -> None:
        while not done.wait(POLL_INTERVAL_S):
            completed, total = count_tasks(tracker, job_group)
            progress(what, completed, total or None)

    poller = threading.Thread(target=poll, daemon=True)
    poller.start()
    try:
        return job()
    finally:
        done.set()
        poller.join()


def count_tasks(tracker: StatusTracker, job_group: str) -> tuple[int, int]:
    """The number of completed tasks, and of all tasks, in those stages of the job group that Spark has begun."""
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(job_group)))
    stages = [stage for job in jobs for stage in map(tracker.getStageInfo, job.stageIds) if stage]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
