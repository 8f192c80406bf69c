"""The process of one run: reads a job as JSON from its input, and writes the result as JSON to its output.

python -m regroup.cli.classroom.lesson_page.run_main < job.json
"""

import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from regroup.classroom.languages import Language
from regroup.classroom.lessons.assignor.task import run_assignor_task
from regroup.classroom.lessons.document import answer_document, recorded_timeline, run_lesson, task_document
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.library import find_lesson
from regroup.classroom.lessons.tasks import run_task
from regroup.classroom.page.document import page_document
from regroup.cli.classroom.lesson.assignor_process import AssignorProcess
from regroup.cli.classroom.lesson_page.wanted import AnswerJob, AssignorJob, Job, Result, TaskJob

MAX_SHOWN_OUTPUT: Final = 2_000


def run_job(job: Job) -> Result:
    """Carry out a job and return its result. Raises the errors of reading and running a lesson."""
    taken, language = find_lesson(job.lesson), Language(job.language)
    match job:
        case AnswerJob(answer=answer):
            return _answered(taken, answer, language)
        case TaskJob(values=values):
            return task_document(run_task(taken, values, language))
        case AssignorJob(file=file):
            process = AssignorProcess(Path(file))
            result = run_assignor_task(taken, process, language)
            return task_document(result) | {"printed": process.printed[:MAX_SHOWN_OUTPUT]}


def _answered(taken: Lesson, answer: str | None, language: Language) -> Result:
    """The verdict on an answer, the replay, and the document of the recorded run for the page.

    Times in the document count from the start of the run.
    """
    run = run_lesson(taken)
    found = answer_document(taken, run, answer, language)
    if "unreadable" in found:
        return found
    timeline = recorded_timeline(taken)
    document = page_document(timeline)
    document["began"] = (timeline.began.position, run.epoch_ms(0))
    return found | {"document": document}


def main() -> None:
    """Carry out the job on standard input. SIGTERM also ends the process of a learner's assignor."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # The runs of the lab may print; what is written to the output is the result alone.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    result = run_job(msgspec.json.decode(sys.stdin.buffer.read(), type=Job))
    results.write(msgspec.json.encode(result))
    results.close()


if __name__ == "__main__":
    main()
