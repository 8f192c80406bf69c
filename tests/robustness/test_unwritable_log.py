"""A log that cannot be written (a full disk, a closed pipe) stops no member."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.emulator import FAST_SETTINGS, REGROUP_COMMAND
from tests.robustness.member import RetryingMember, running, wait_until


def closed_pipe() -> int:
    """The writing end of a pipe without a reader, as after `regroup serve 2>&1 | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def start_process(words: list[str], standard_error: int) -> "subprocess.Popen[str]":
    return subprocess.Popen([REGROUP_COMMAND, *words], stdout=subprocess.PIPE, stderr=standard_error, text=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.slow
@pytest.mark.parametrize("log", [closed_pipe, full_disk])
async def test_members_continue_without_a_log(log: Callable[[], int], tmp_path: Path) -> None:
    words = ["serve", "--port", "0", "--topic", "orders:1", "--store", str(tmp_path / "groups.db")]
    settings = [word for each in FAST_SETTINGS for word in ("--set", each)]
    standard_error = log()
    process = await asyncio.to_thread(start_process, [*words, *settings], standard_error)
    try:
        assert process.stdout
        address = process.stdout.readline().split()[-1]
        member = RetryingMember("member", address, leaves_after=3)
        async with running(member):
            await wait_until(lambda: member.committed > 7, "a member that leaves and joins again")
    finally:
        os.close(standard_error)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        process.stdout.close()
