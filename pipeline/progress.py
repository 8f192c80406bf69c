"""A bar on standard error that shows how many of a job's tasks are done."""

import threading
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

from pyspark import StatusTracker
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Result = TypeVar("Result")

LOOK_EVERY_S = 0.5


def watched(spark: SparkSession, what: str, job: Callable[[], Result]) -> Result:
    """Do the job; on a terminal a bar shows its progress meanwhile."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return job()
    context, name = spark.sparkContext, str(uuid4())
    context.setJobGroup(name, what)
    done = threading.Event()
    watcher = threading.Thread(target=look, args=(context.statusTracker(), name, what, console, done), daemon=True)
    watcher.start()
    try:
        return job()
    finally:
        done.set()
        watcher.join()


def look(tracker: StatusTracker, name: str, what: str, console: Console, done: threading.Event) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        while not done.wait(LOOK_EVERY_S):
            completed, total = tasks_of(tracker, name)
            progress.update(task, completed=completed, total=total or None)


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
