"""A real store with changed bytes: each command either works or says in one line what is wrong, and changes nothing."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from regroup.cli.main import main
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.storage.errors import StoreError
from regroup.storage.sqlite.threaded import open_store
from tests.robustness.member import RetryingMember, running, wait_until

SUCCESS, CANNOT_RUN = 0, 2
"""Exit codes."""


async def start_cluster(path: Path) -> BrokerCluster:
    settings = CoordinatorSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=500)
    return await BrokerCluster.start(partial(open_store, path), ClusterOptions(settings=settings))


async def write_history(path: Path) -> None:
    """Create a store of three groups whose members joined, committed and left; it ends with a snapshot."""
    async with await start_cluster(path) as cluster:
        await cluster.ensure_topic("orders", 6)
        address = "{}:{}".format(*cluster.address)
        members = [RetryingMember(f"m{n}", address, group=f"g{n % 3}", partition=n, leaves_after=4) for n in range(6)]
        async with running(*members):
            await wait_until(lambda: all(each.committed > 5 for each in members), "a history")


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a real store."""
    path = tmp_path_factory.mktemp("intact") / "groups.db"
    asyncio.run(write_history(path))
    return path.read_bytes()


def flip_a_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite_a_range(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    data[start : start + 100] = rng.randbytes(len(data[start : start + 100]))


def clear_a_page(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(1, len(data) // 4096) * 4096
    data[start : start + 4096] = bytes(4096)


def swap_two_pages(data: bytearray, rng: random.Random) -> None:
    one, two = (rng.randrange(1, len(data) // 4096) * 4096 for _ in range(2))
    data[one : one + 4096], data[two : two + 4096] = data[two : two + 4096], data[one : one + 4096]


def cut_off_the_end(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


DAMAGES: list[Callable[[bytearray, random.Random], None]] = [
    flip_a_bit,
    flip_a_bit,
    flip_a_bit,
    overwrite_a_range,
    clear_a_page,
    swap_two_pages,
    cut_off_the_end,
]


def damaged(intact: bytes, seed: int) -> bytes:
    rng, data = random.Random(seed), bytearray(intact)
    DAMAGES[seed % len(DAMAGES)](data, rng)
    return bytes(data)


@pytest.mark.quick("-verify]")
@pytest.mark.parametrize(
    "words", [["verify"], ["replay"], ["events"], ["events", "--format", "jsonl"], ["story"]], ids=" ".join
)
@pytest.mark.parametrize("portion", [0, *[pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20)]])
def test_a_damaged_store_is_reported_and_stays_unchanged(
    intact: bytes, words: list[str], portion: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store.db"
    codes = set()
    for seed in range(portion * 70, portion * 70 + 70):
        changed = damaged(intact, seed)
        path.write_bytes(changed)
        code = main([words[0], str(path), *words[1:]])
        errors = capsys.readouterr().err
        assert (code == CANNOT_RUN) == (errors != ""), f"seed {seed}: {code}, {errors}"
        assert errors.count("\n") <= 1, f"seed {seed}: {errors}"
        assert path.read_bytes() == changed, f"seed {seed}"
        assert [each.name for each in tmp_path.iterdir()] == ["store.db"], f"seed {seed}"
        codes.add(code)
    assert {SUCCESS, CANNOT_RUN} <= codes


@pytest.mark.parametrize("portion", [0, *[pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20)]])
async def test_an_emulator_starts_with_a_damaged_store_or_raises_a_store_error(
    intact: bytes, portion: int, tmp_path: Path
) -> None:
    started = refused = 0
    for seed in range(portion * 40, portion * 40 + 40):
        path = tmp_path / f"{seed}.db"
        path.write_bytes(damaged(intact, seed))
        try:
            cluster = await start_cluster(path)
            await cluster.close()
            started += 1
        except StoreError:
            refused += 1
    assert started
    assert refused


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["trim", "--before", "2"], ["verify"]], ids=" ".join)
@pytest.mark.parametrize("content", [b"Dear diary", b"x" * 5000, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_of_another_program_is_not_changed(
    words: list[str], content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "diary"
    path.write_bytes(content)
    option = ["--store", str(path)] if words[0] == "serve" else [str(path)]
    assert main([words[0], *option, *words[1:]]) == CANNOT_RUN
    assert "not a store of this program" in capsys.readouterr().err
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["diary"]


def test_a_store_of_a_newer_version_is_not_changed(
    intact: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store.db"
    newer = intact[:60] + (99).to_bytes(4, "big") + intact[64:]
    path.write_bytes(newer)
    assert main(["serve", "--port", "0", "--store", str(path)]) == CANNOT_RUN
    assert "use a newer release" in capsys.readouterr().err
    assert path.read_bytes() == newer
