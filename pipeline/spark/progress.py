"""How many of a Spark job's tasks are done, told while it runs."""

import threading
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar
from uuid import uuid4

from pyspark import StatusTracker
from pyspark.sql import SparkSession

Result = TypeVar("Result")

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Told what is being done, how many tasks are done, and of how many, as soon as that is known."""

LOOK_EVERY_S: Final = 0.5


def watched(spark: SparkSession, what: str, job: Callable[[], Result], progress: Progress | None) -> Result:
    """Do the job; a thread of its own tells its progress meanwhile."""
    if progress is None:
        return job()
    context, name = spark.sparkContext, str(uuid4())
    context.setJobGroup(name, what)
    done = threading.Event()
    watcher = threading.Thread(target=look, args=(context.statusTracker(), name, what, progress, done), daemon=True)
    watcher.start()
    try:
        return job()
    finally:
        done.set()
        watcher.join()


def look(tracker: StatusTracker, name: str, what: str, progress: Progress, done: threading.Event) -> None:
    while not done.wait(LOOK_EVERY_S):
        completed, total = tasks_of(tracker, name)
        progress(what, completed, total or None)


def tasks_of(tracker: StatusTracker, name: str) -> tuple[int, int]:
    """Tasks that are done, and tasks in all, over the stages that are known by now."""
    completed = total = 0
    for job in tracker.getJobIdsForGroup(name):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            state = tracker.getStageInfo(stage)
            if state:
                completed, total = completed + state.numCompletedTasks, total + state.numTasks
    return completed, total
