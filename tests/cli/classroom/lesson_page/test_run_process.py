"""A run of the page has a process of its own: one at a time, within a limit."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs starlette and uvicorn")

from regroup.cli.classroom.lesson_page.run_process import RunProcess
from regroup.cli.classroom.lesson_page.wanted import AssignorJob, TaskJob
from regroup.control.errors import ControlRefused, Status

PROCESSES = Path("/proc")
JOB = TaskJob(lesson="1", language="en", values={"partitions": "9"})


@pytest.mark.slow
async def test_a_second_run_is_refused_while_one_lasts() -> None:
    run = RunProcess()
    first = asyncio.create_task(run(JOB))
    await asyncio.sleep(0)
    with pytest.raises(ControlRefused, match="another run has not ended yet") as caught:
        await run(JOB)
    assert caught.value.status is Status.TOO_MANY_WAITS
    assert (await first)["is_solved"] is True
    assert (await run(JOB))["is_solved"] is True


@pytest.mark.slow
async def test_a_run_leaves_the_logging_of_this_process_alone() -> None:
    before = (logging.root.level, list(logging.root.handlers))
    await RunProcess()(JOB)
    assert (logging.root.level, list(logging.root.handlers)) == before


async def test_a_run_that_takes_too_long_is_ended_and_refuses_others_until_then() -> None:
    run = RunProcess(time_limit_s=0.01)
    first = asyncio.create_task(run(JOB))
    await asyncio.sleep(0)
    with pytest.raises(ControlRefused, match="another run has not ended yet"):
        await run(JOB)
    with pytest.raises(ControlRefused, match=r"taken longer than 0\.01 s") as caught:
        await first
    assert caught.value.status is Status.TIMED_OUT
    with pytest.raises(ControlRefused, match="taken longer"):
        await run(JOB)


@pytest.mark.slow
@pytest.mark.skipif(not PROCESSES.exists(), reason="there is no /proc that lists processes")
async def test_the_assignor_of_a_run_that_is_ended_ends_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import time\n\n\ndef assign(partitions, members):\n    time.sleep(60)\n", encoding="utf-8")
    run = asyncio.create_task(RunProcess()(AssignorJob(lesson="8", language="en", file=str(file))))
    async with asyncio.timeout(60):
        while not processes_with(str(file)):  # noqa: ASYNC110  # another process decides when it starts
            await asyncio.sleep(0.02)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert processes_with(str(file)) == []


def processes_with(word: str) -> list[str]:
    """The command lines of running processes that have this word."""
    found = []
    for each in PROCESSES.glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [each for each in found if word in each]


async def test_a_process_that_fails_is_a_fault_of_regroup() -> None:
    with pytest.raises(ControlRefused, match="the process of the run has failed") as caught:
        await RunProcess()(TaskJob(lesson="no such lesson", language="en", values={}))
    assert caught.value.status is Status.BROKEN
