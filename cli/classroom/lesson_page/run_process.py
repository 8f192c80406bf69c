"""Runs the jobs of the page, one at a time, each in a process of its own with limits on its time and its output.

A run replaces the configuration of logging, and a planted bug replaces code of coordinators, so none is made in the
process that serves.
"""

import asyncio
import sys
from contextlib import suppress
from typing import Final

import msgspec

from regroup.cli.classroom.lesson_page.wanted import Job, Result
from regroup.control.errors import ControlRefused, Status
from regroup.coordinator.runtime.logger import get_logger

TIME_LIMIT_S: Final = 60.0
"""More than the limits of a run and of a learner's assignor together, which end both with a message of their own."""
GRACE_S: Final = 1.0
MAX_RESULT_BYTES: Final = 32 * 1024 * 1024
MAX_SHOWN_ERROR: Final = 4_000
MODULE: Final = "regroup.cli.classroom.lesson_page.run_main"
log = get_logger("lesson")


class RunProcess:
    """Runs jobs of the page, each in a new process, and refuses a job while another one runs."""

    def __init__(self, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._time_limit_s = time_limit_s
        self._is_running = False

    async def __call__(self, job: Job) -> Result:
        """Run a job and return its result. Raises ControlRefused if another job runs, or the job takes too long."""
        if self._is_running:
            raise ControlRefused(Status.TOO_MANY_WAITS, "another run has not ended yet: try again in a moment")
        self._is_running = True
        try:
            return await self._run(job)
        finally:
            self._is_running = False

    async def _run(self, job: Job) -> Result:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            limit=MAX_RESULT_BYTES,
            start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(self._time_limit_s):
                written, errors = await process.communicate(msgspec.json.encode(job))
        except TimeoutError:
            raise ControlRefused(
                Status.TIMED_OUT, f"the run was ended, because it has taken longer than {self._time_limit_s:g} s"
            ) from None
        finally:
            if process.returncode is None:
                await _end(process)
        if process.returncode != 0 or len(written) > MAX_RESULT_BYTES:
            shown = errors[-MAX_SHOWN_ERROR:].decode(errors="replace")
            log.error("the process of a run failed", exit_code=process.returncode, errors=shown)
            raise ControlRefused(
                Status.BROKEN, "the process of the run has failed; the log of `regroup lesson` has more"
            )
        result: Result = msgspec.json.decode(written)
        return result


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process with SIGTERM, on which it ends the processes that it has started; after a moment, kill it."""
    with suppress(ProcessLookupError, TimeoutError):
        process.terminate()
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
