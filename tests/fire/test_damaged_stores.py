"""A real store with changed bytes: every command either works or says in a line what is wrong, and changes nothing."""

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from regroup.cli.main import main
from regroup.coordinator.settings import Settings
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.storage.errors import StoreError
from regroup.storage.sqlite.threaded import open_store
from tests.fire.member import Member, living, until

DID_IT, COULD_NOT = 0, 2


def an_emulator(store: Path) -> Emulator:
    return Emulator(
        partial(open_store, store),
        clock=Clock(started_at_ms=time.time_ns() // 1_000_000, monotonic_s=time.monotonic),
        new_uuid=uuid4,
        settings=Settings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=500),
    )


async def lived_in(path: Path) -> None:
    """Three groups in which members came, committed and went; closed with a snapshot."""
    emulator = an_emulator(path)
    await emulator.start()
    try:
        await emulator.ensure_topic("orders", 6)
        address = "{}:{}".format(*emulator.address)
        members = [Member(f"m{n}", address, group=f"g{n % 3}", partition=n, leaves_after=4) for n in range(6)]
        async with living(*members):
            await until(lambda: all(each.committed > 5 for each in members), "a history")
    finally:
        await emulator.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a real store."""
    path = tmp_path_factory.mktemp("whole") / "groups.db"
    asyncio.run(lived_in(path))
    return path.read_bytes()


def flip_a_bit(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def overwrite_a_stretch(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    data[start : start + 100] = chance.randbytes(len(data[start : start + 100]))


def lose_a_page(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(1, len(data) // 4096) * 4096
    data[start : start + 4096] = bytes(4096)


def swap_two_pages(data: bytearray, chance: random.Random) -> None:
    one, two = (chance.randrange(1, len(data) // 4096) * 4096 for _ in range(2))
    data[one : one + 4096], data[two : two + 4096] = data[two : two + 4096], data[one : one + 4096]


def lose_the_end(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


DAMAGES: list[Callable[[bytearray, random.Random], None]] = [
    flip_a_bit,
    flip_a_bit,
    flip_a_bit,
    overwrite_a_stretch,
    lose_a_page,
    swap_two_pages,
    lose_the_end,
]


def damaged(whole: bytes, seed: int) -> bytes:
    chance, data = random.Random(seed), bytearray(whole)
    DAMAGES[seed % len(DAMAGES)](data, chance)
    return bytes(data)


@pytest.mark.parametrize("words", [["verify"], ["replay"], ["events"], ["events", "--format", "jsonl"]], ids=" ".join)
@pytest.mark.parametrize("portion", [0, *[pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20)]])
def test_whoever_reads_a_damaged_store_is_told_so_and_it_stays_as_it_is(
    whole: bytes, words: list[str], portion: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store.db"
    codes = set()
    for seed in range(portion * 70, portion * 70 + 70):
        changed = damaged(whole, seed)
        path.write_bytes(changed)
        code = main([words[0], str(path), *words[1:]])
        errors = capsys.readouterr().err
        assert (code == COULD_NOT) == (errors != ""), f"seed {seed}: {code}, {errors}"
        assert errors.count("\n") <= 1, f"seed {seed}: {errors}"
        assert path.read_bytes() == changed, f"seed {seed}"
        assert [each.name for each in tmp_path.iterdir()] == ["store.db"], f"seed {seed}"
        codes.add(code)
    assert {DID_IT, COULD_NOT} <= codes


@pytest.mark.parametrize("portion", [0, *[pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20)]])
async def test_an_emulator_starts_on_a_damaged_store_or_says_why_not(
    whole: bytes, portion: int, tmp_path: Path
) -> None:
    started = refused = 0
    for seed in range(portion * 40, portion * 40 + 40):
        path = tmp_path / f"{seed}.db"
        path.write_bytes(damaged(whole, seed))
        try:
            await lives_and_dies(an_emulator(path))
            started += 1
        except StoreError:
            refused += 1
    assert started
    assert refused


async def lives_and_dies(emulator: Emulator) -> None:
    await emulator.start()
    await emulator.close()


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["trim", "--before", "2"], ["verify"]], ids=" ".join)
@pytest.mark.parametrize("content", [b"Dear diary", b"x" * 5000, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_not_ours_is_left_alone(
    words: list[str], content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "diary"
    path.write_bytes(content)
    option = ["--store", str(path)] if words[0] == "serve" else [str(path)]
    assert main([words[0], *option, *words[1:]]) == COULD_NOT
    assert "not a store of this program" in capsys.readouterr().err
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["diary"]


def test_a_store_of_a_newer_version_is_left_alone(
    whole: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store.db"
    newer = whole[:60] + (99).to_bytes(4, "big") + whole[64:]
    path.write_bytes(newer)
    assert main(["serve", "--port", "0", "--store", str(path)]) == COULD_NOT
    assert "use a newer release" in capsys.readouterr().err
    assert path.read_bytes() == newer
