"""A writing process is killed. The records it acknowledged are in the store, and the next writer continues."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regroup.storage.errors import StoreLocked
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.threaded import open_store

WRITER = """
import asyncio, sys
from regroup.storage.journal import Journal
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.threaded import open_store

async def main():
    store = await open_store(sys.argv[1], durability=sys.argv[2])
    journal = Journal(store)
    while True:
        position = journal.last_position
        print(position, flush=True)
        batch = [NewRecord("a", position + step, 1, 0, "member-joined", 1, b"{}", None) for step in range(1, 8)]
        await journal.wait_until_durable(journal.append(batch))

asyncio.run(main())
"""


@contextmanager
def writer(path: Path, durability: str = "disk") -> Iterator[subprocess.Popen[str]]:
    """A process that appends seven records at a time and prints the last durable position after each commit."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), durability], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(process: subprocess.Popen[str], lines: int) -> int:
    """Read this many lines; the position in the last of them."""
    assert process.stdout is not None
    return int([process.stdout.readline() for _ in range(lines)][-1])


def kill(process: subprocess.Popen[str], last: int) -> int:
    """Kill the process with SIGKILL; the largest position that it has printed."""
    process.kill()
    rest, _ = process.communicate()
    whole = [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    return max([last, *whole])


@pytest.mark.parametrize("durability", ["disk", "process"])
@pytest.mark.parametrize("lines", [1, 2, 60])
async def test_every_acknowledged_record_survives(tmp_path: Path, durability: str, lines: int) -> None:
    path = tmp_path / "store"
    with writer(path, durability) as process:
        last = kill(process, acknowledged(process, lines))
    async with await open_store(path, read_only=True) as reader:
        by_reader = [record.event_number async for record in reader.read()]
    async with await open_store(path) as store:
        numbers = [record.event_number async for record in store.read()]
        assert numbers == by_reader == list(range(1, store.last_position + 1))
        assert store.last_position >= last
        assert store.last_position % 7 == 0
        following = NewRecord("a", store.last_position + 1, 1, 0, "member-joined", 1, b"{}", None)
        assert await store.append([following]) == following.event_number


async def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with writer(path) as process:
        acknowledged(process, 1)
        with pytest.raises(StoreLocked, match=f"number {process.pid}"):
            await open_store(path)
        kill(process, 0)
    await (await open_store(path)).close()


async def test_a_reader_continues_after_the_writing_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with writer(path) as process:
        acknowledged(process, 2)
        async with await open_store(path, read_only=True) as reader:
            seen: list[int] = []
            while len(seen) < 300:
                batch = [record.event_number async for record in reader.read(after=len(seen))]
                seen += batch
                assert len(seen) % 7 == 0
                await asyncio.to_thread(acknowledged, process, 1)
            last = kill(process, 0)
            seen += [record.event_number async for record in reader.read(after=len(seen))]
            assert seen == list(range(1, len(seen) + 1))
            assert len(seen) >= last
