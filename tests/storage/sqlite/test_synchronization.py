"""What makes a record durable: SQLite's pragmas, and the synchronizations of the disk that the kernel sees."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.storage.records import NewRecord
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.sqlite.opening import Durability
from regroup.storage.sqlite.threaded import open_store

SYNCHRONOUS = {"disk": 2, "process": 1}
"""The values of SQLite's `PRAGMA synchronous`: FULL and NORMAL."""
COMMITS = 40


def record(number: int) -> NewRecord:
    return NewRecord("a", number, 1, 0, "member-joined", 1, b"{}", None)


@pytest.mark.parametrize("opener", [open_store, open_inline_store])
@pytest.mark.parametrize("durability", ["disk", "process"])
async def test_the_connection_that_writes_has_the_pragmas_of_its_durability(
    tmp_path: Path, opener: object, durability: Durability
) -> None:
    open_here = open_store if opener is open_store else open_inline_store
    async with await open_here(tmp_path / "store", durability=durability) as store:
        await store.append([record(1)])
        assert await store._connection.execute("PRAGMA synchronous") == [(SYNCHRONOUS[durability],)]
        assert await store._connection.execute("PRAGMA journal_mode") == [("wal",)]


def can_trace() -> bool:
    """Whether strace is there, and the system lets one process trace another."""
    if shutil.which("strace") is None:
        return False
    return (
        subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0
    )


PROGRAM = f"""
import asyncio, sys
from regroup.storage.journal import Journal
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.threaded import open_store

async def main():
    async with await open_store(sys.argv[1], durability=sys.argv[2]) as store:
        journal = Journal(store)
        for number in range(1, {COMMITS} + 1):
            await journal.wait_until_durable(journal.append([NewRecord("a", number, 1, 0, "joined", 1, b"{{}}", None)]))
        await journal.close()

asyncio.run(main())
"""


def synchronizations_of(path: Path, durability: Durability, trace: Path) -> int:
    """How often a writer synchronizes the write-ahead log while it waits for so many commits, one after another."""
    command = ["strace", "-f", "-y", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
    subprocess.run([*command, sys.executable, "-c", PROGRAM, str(path), durability], check=True, timeout=60)
    return sum("-wal>" in line for line in trace.read_text().splitlines())


@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or may not trace")
def test_each_commit_is_synchronized_with_the_disk(tmp_path: Path) -> None:
    on_disk = synchronizations_of(tmp_path / "disk.db", "disk", tmp_path / "disk.trace")
    in_process = synchronizations_of(tmp_path / "process.db", "process", tmp_path / "process.trace")
    assert on_disk >= COMMITS
    assert in_process < COMMITS / 2
