"""The files of a store are deleted, replaced or cut off under a running emulator: what is acknowledged stays true."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.emulator import EmulatorProcess, eventually, run_regroup
from tests.clients.processes import Serve
from tests.robustness.member import RETRIABLE_CODES, RetryingMember, missing, running, wait_until
from tests.storage.sqlite.test_killed_writer import WRITER

OPTIONS = ("--topic", "orders:4", "--set", "group.initial.rebalance.delay.ms=0")


def beside(store: Path, suffix: str) -> Path:
    return store.with_name(store.name + suffix)


def delete_the_store(store: Path) -> None:
    store.unlink()


def delete_the_log(store: Path) -> None:
    beside(store, "-wal").unlink()


def delete_everything(store: Path) -> None:
    for suffix in ("", "-wal", "-shm", ".lock"):
        beside(store, suffix).unlink()


def move_the_store_away(store: Path) -> None:
    store.rename(beside(store, ".moved"))


def replace_the_store(store: Path) -> None:
    shutil.copy(store, beside(store, ".copy"))
    beside(store, ".copy").replace(store)


def replace_the_log(store: Path) -> None:
    shutil.copy(beside(store, "-wal"), beside(store, ".copy"))
    beside(store, ".copy").replace(beside(store, "-wal"))


def empty_the_log(store: Path) -> None:
    os.truncate(beside(store, "-wal"), 0)


def cut_the_end_off_the_log(store: Path) -> None:
    """Some bytes of a page; the very last one may be zero, and is then not missed."""
    os.truncate(beside(store, "-wal"), beside(store, "-wal").stat().st_size - 40)


def cut_the_log_in_half(store: Path) -> None:
    os.truncate(beside(store, "-wal"), beside(store, "-wal").stat().st_size // 2)


def overwrite_the_log(store: Path) -> None:
    """With other bytes of the same length."""
    with beside(store, "-wal").open("r+b") as log:
        size_bytes = os.fstat(log.fileno()).st_size
        log.write(random.Random(1).randbytes(size_bytes))


def empty_the_store(store: Path) -> None:
    os.truncate(store, 0)


LOSSES = [
    delete_the_store,
    delete_the_log,
    delete_everything,
    move_the_store_away,
    replace_the_store,
    replace_the_log,
    empty_the_log,
    cut_the_end_off_the_log,
    cut_the_log_in_half,
    overwrite_the_log,
    empty_the_store,
]


async def committed_when_lost(emulator: EmulatorProcess, member: RetryingMember, lose: Callable[[Path], None]) -> int:
    """Lose the files while the emulator is stopped; returns the last commit that was acknowledged before that."""
    emulator.send_signal(signal.SIGSTOP)
    committed = -1
    while committed != member.committed:  # responses may still be on their way
        committed = member.committed
        await asyncio.sleep(0.2)
    lose(emulator.store)
    emulator.send_signal(signal.SIGCONT)
    return committed


@pytest.mark.quick("[delete_the_store]")
@pytest.mark.parametrize("lose", LOSSES)
async def test_at_most_one_commit_is_acknowledged_after_the_loss(serve: Serve, lose: Callable[[Path], None]) -> None:
    emulator = serve(*OPTIONS)
    member = RetryingMember("member", emulator.address, session_timeout_ms=20_000)
    async with running(member):
        await wait_until(lambda: member.committed > 20, "commits")
        before = await committed_when_lost(emulator, member, lose)
        await wait_until(lambda: "store-failed" in emulator.log, "the failure")
        member.codes.clear()
        await wait_until(lambda: any(code in RETRIABLE_CODES for code in member.codes), "refusals")
        assert member.committed <= before + 1
    assert "Traceback" not in emulator.log
    assert emulator.store.name in emulator.log.partition("store-failed")[2].splitlines()[0]
    assert not emulator.store.exists() or lose not in (delete_the_store, delete_everything, move_the_store_away)
    assert emulator.terminate() == 2
    assert emulator.log.splitlines()[-1].startswith("regroup serve: ")


@pytest.mark.slow
async def test_everything_acknowledged_is_there_once_the_store_is_put_back(serve: Serve) -> None:
    emulator = serve(*OPTIONS)
    member = RetryingMember("member", emulator.address, session_timeout_ms=20_000)
    async with running(member):
        await wait_until(lambda: member.committed > 20, "commits")
        await committed_when_lost(emulator, member, move_the_store_away)
        await wait_until(lambda: "store-still-fails" in emulator.log, "the failure")
        beside(emulator.store, ".moved").rename(emulator.store)
        before = member.committed
        await wait_until(lambda: member.committed > before + 3, "commits after the return")
    assert not list(missing(member.acknowledged, emulator.events(member.group)))
    assert "store-reopened" in emulator.log
    assert emulator.terminate() == 0
    assert run_regroup("verify", emulator.store).returncode == 0


@pytest.mark.slow
async def test_an_older_copy_in_place_of_the_store_is_not_gone_on_with(serve: Serve) -> None:
    """The emulator would answer with offsets from before, and give positions away a second time."""
    emulator = serve(*OPTIONS)
    member = RetryingMember("member", emulator.address, session_timeout_ms=20_000)
    async with running(member):
        await wait_until(lambda: member.committed > 5, "commits")
        older = emulator.store.with_name("older.db")
        assert run_regroup("copy", emulator.store, older).returncode == 0
        await wait_until(lambda: member.committed > 20, "more commits")

        def put_back_the_older(store: Path) -> None:
            delete_everything(store)
            older.rename(store)

        before = await committed_when_lost(emulator, member, put_back_the_older)
        await wait_until(lambda: "were acknowledged: put the whole store back" in emulator.log, "the failure")
        assert member.committed <= before + 1
    assert emulator.terminate() == 2


@pytest.mark.slow
@pytest.mark.parametrize("lose", [delete_the_store, delete_everything])
def test_a_loss_while_nothing_is_written_is_told_at_the_end(serve: Serve, lose: Callable[[Path], None]) -> None:
    emulator = serve(*OPTIONS)
    lose(emulator.store)
    assert emulator.terminate() == 2
    assert "was deleted or moved while" in emulator.log.splitlines()[-1]


@pytest.mark.quick("[empty_the_log-2-disk]")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("durability", ["disk", "process"])
@pytest.mark.parametrize(
    ("lose", "rounds"),
    [
        (cut_the_end_off_the_log, 2),
        (empty_the_log, 2),
        (overwrite_the_log, 2),
        *(pytest.param(lose, 20, marks=pytest.mark.slow) for lose in LOSSES),
    ],
)
def test_a_loss_in_the_middle_of_a_commit_is_noticed(
    lose: Callable[[Path], None], rounds: int, durability: str, tmp_path: Path
) -> None:
    """The writer never pauses: nearly all of its time a commit is on its way to the disk."""
    rng = random.Random(rounds)
    for number in range(rounds):
        store, output = tmp_path / f"{number}.db", tmp_path / f"{number}.out"
        with (
            output.open("w") as file,
            subprocess.Popen(
                [sys.executable, "-c", WRITER, store, durability], stdout=file, stderr=subprocess.PIPE, text=True
            ) as process,
        ):
            assert process.stderr
            try:
                eventually(lambda output=output: output.stat().st_size > 100, "the first commits")
                time.sleep(rng.uniform(0, 0.02))  # another moment each time
                lose(store)
                deadline = threading.Timer(30, process.kill)
                deadline.start()
                assert any("StoreLost" in line for line in process.stderr)
                deadline.cancel()
            finally:
                process.kill()
