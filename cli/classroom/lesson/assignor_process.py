"""Runs a learner's assignor in a process of its own, with limits on its time, output and memory.

The limits are there for mistakes. They are no protection from hostile code: the file is the learner's own, on the
learner's own machine.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from regroup.classroom.languages import Language
from regroup.classroom.lessons.assignor.cases import MadeUpCase
from regroup.classroom.lessons.assignor.failures import AssignorFailure
from regroup.classroom.lessons.assignor.task import run_assignor_task
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.format.reading import at_line

TIME_LIMIT_S: Final = 5.0
MAX_PRINTED_BYTES: Final = 64 * 1024
MAX_RESULT_BYTES: Final = 4 * 1024 * 1024
MAX_MEMORY_BYTES: Final = 1024 * 1024 * 1024
RUNNER: Final = Path(__file__).with_name("student_runner.py")
_CHUNK: Final = 64 * 1024
_GRACE_S: Final = 0.5
"""For output that is still in a pipe when the process has ended."""


class AssignorProcess:
    """Calls the learner's function `assign`; each call runs a list of cases in a new process."""

    def __init__(self, file: Path, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._file, self._time_limit_s = file.absolute(), time_limit_s
        self.printed = ""
        """What the function printed, of all calls."""

    def __call__(self, cases: Sequence[MadeUpCase]) -> list[Any]:
        """The assignment that `assign` returned for each case, as plain values. Raises AssignorFailure."""
        with tempfile.TemporaryDirectory() as folder:
            cases_file = Path(folder, "cases.json")
            cases_file.write_text(json.dumps(cases), encoding="utf-8")
            result = self._run(folder, cases_file)
        failure = result.get("failure")
        if failure:
            raise AssignorFailure(failure, str(result.get("detail", "")))
        returned = result.get("returned")
        if not isinstance(returned, list) or len(returned) != len(cases):
            raise AssignorFailure("ended", "its result is damaged")
        return returned

    def _run(self, folder: str, cases_file: Path) -> dict[str, Any]:
        read_end, write_end = os.pipe()
        with os.fdopen(read_end, "rb") as results:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(RUNNER), str(self._file), str(cases_file),
                     str(write_end), str(MAX_MEMORY_BYTES), str(int(self._time_limit_s) + 1)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=[write_end],
                    cwd=folder,
                    env={"PYTHONHASHSEED": "0"},
                    start_new_session=True,
                )  # fmt: skip
            finally:
                os.close(write_end)
            assert process.stdout is not None
            try:
                with process.stdout:
                    content = self._read(process, process.stdout, results)
            finally:
                _kill_session(process)
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise AssignorFailure("ended", _how_it_ended(process))
        return found

    def _read(self, process: subprocess.Popen[bytes], output: IO[bytes], results: IO[bytes]) -> bytes:
        """Read the process's output and its results until both end. Raises AssignorFailure if a limit is exceeded."""
        contents = {output.fileno(): bytearray(), results.fileno(): bytearray()}
        printed, result = contents[output.fileno()], contents[results.fileno()]
        deadline_s = time.monotonic() + self._time_limit_s
        is_late = False
        try:
            with selectors.DefaultSelector() as selector:
                for stream in (output, results):
                    selector.register(stream, selectors.EVENT_READ)
                while selector.get_map():
                    if process.poll() is not None:
                        # A process that it has started may keep the pipes open.
                        deadline_s = min(deadline_s, time.monotonic() + _GRACE_S)
                    left_s = deadline_s - time.monotonic()
                    if left_s <= 0:
                        is_late = process.poll() is None
                        break
                    for key, _ in selector.select(min(left_s, 0.1)):
                        chunk = os.read(key.fd, _CHUNK)
                        contents[key.fd] += chunk
                        if not chunk:
                            selector.unregister(key.fileobj)
                    if len(printed) > MAX_PRINTED_BYTES:
                        raise AssignorFailure("too much output", f"{MAX_PRINTED_BYTES // 1024} kB")
                    if len(result) > MAX_RESULT_BYTES:
                        raise AssignorFailure("result too large", f"{MAX_RESULT_BYTES // 1024 // 1024} MB")
        finally:
            if len(self.printed) < MAX_PRINTED_BYTES:
                self.printed += bytes(printed[:MAX_PRINTED_BYTES]).decode(errors="replace")
        if is_late and not result:
            raise AssignorFailure("too long", f"{self._time_limit_s:g} s")
        return bytes(result)


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """End the process and all processes that it has started.

    If no error is being handled, the process first gets a moment to end by itself.
    """
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S if sys.exc_info()[0] is None else 0)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    if code == -signal.SIGXCPU:
        return "it took too much processor time"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def example_problems(lesson: Lesson) -> Iterator[str]:
    """Run the examples of a task that asks for an assignor.

    Yields a sentence for each `right` one that does not solve the task, and each `wrong` one that does.
    """
    task = lesson.parts.task
    if task.assignor is None:
        return
    for kind in ("right", "wrong"):
        for index, example in enumerate(getattr(task, kind)):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "assignor.py")
                file.write_text(str(example), encoding="utf-8")
                result = run_assignor_task(lesson, AssignorProcess(file), Language.ENGLISH)
            if result.is_solved != (kind == "right"):
                found = "; ".join(filter(None, (result.problem, *(f"{a} {c}".strip() for _, a, c in result.results))))
                verb = "does not solve" if kind == "right" else "solves"
                yield at_line(lesson.lines, f"task.{kind}[{index}]", f"this example {verb} the task ({found})")
