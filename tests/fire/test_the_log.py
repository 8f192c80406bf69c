"""A log that cannot be written (its disk is full, its reader has gone) harms nobody."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.emulator import QUICK, REGROUP
from tests.fire.member import Member, living, until


def reader_gone() -> int:
    """A pipe that nobody reads any more, as after `regroup serve 2>&1 | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def disk_full() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def started(words: list[str], standard_error: int) -> "subprocess.Popen[str]":
    return subprocess.Popen([REGROUP, *words], stdout=subprocess.PIPE, stderr=standard_error, text=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("log", [reader_gone, disk_full])
async def test_members_live_on_without_a_log(log: Callable[[], int], tmp_path: Path) -> None:
    words = ["serve", "--port", "0", "--topic", "orders:1", "--store", str(tmp_path / "groups.db")]
    settings = [word for each in QUICK for word in ("--set", each)]
    standard_error = log()
    process = await asyncio.to_thread(started, [*words, *settings], standard_error)
    try:
        assert process.stdout
        address = process.stdout.readline().split()[-1]
        member = Member("member", address, leaves_after=3)
        async with living(member):
            await until(lambda: member.committed > 7, "a member that comes and goes")
    finally:
        os.close(standard_error)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        process.stdout.close()
