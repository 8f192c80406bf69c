"""Every recorded exchange is in bronze once, also after kills, deletions and losses. A loop copies the files."""

import asyncio
import sqlite3
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from regroup.pipeline.bronze import exchange_files
from regroup.pipeline.bronze.exchange_files import plan_exchanges, write_exchanges
from regroup.pipeline.locations.location import location_of
from regroup.pipeline.source.stores import inspect_store
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.blocks import BlockEncoder
from regroup.storage.errors import StoreDamaged
from regroup.storage.sqlite.inline import open_inline_store


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_files, "BLOCKS_PER_FILE", 5)


def record(path: Path, first: int, last: int, *, text: str = "request") -> None:
    """Append blocks with one exchange each, numbered from `first` to `last`."""

    async def write() -> None:
        async with await open_inline_store(path) as store:
            for number in range(first, last + 1):
                row = ExchangeRow(number, "0-1@1", "10.0.0.1", number, number, f"{text} {number}".encode(), 20, number)
                for block in BlockEncoder().encode([row], number):
                    await store.append_exchanges(block, max_bytes=2**30)

    asyncio.run(write())


def delete(path: Path, condition: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"DELETE FROM exchanges WHERE {condition}")


def copy(folder: Path, *, leave_out: int | None = None) -> list[str]:
    """Copy what is missing; `leave_out` is the index of a file that a kill prevents. Returns the names of files."""
    plan = plan_exchanges(inspect_store(folder / "a.db"), location_of(folder / "out"))
    for number, each in enumerate(plan):
        if number != leave_out:
            write_exchanges(each)
    return [each.target.stem for each in plan]


def exchanges(folder: Path) -> list[str]:
    files = sorted((folder / "out").glob("*.parquet"))
    tables = [pq.read_table(each, partitioning=None).to_pylist() for each in files]
    rows = sorted((row for table in tables for row in table), key=lambda row: row["number"])
    return [row["request"].decode() for row in rows]


def requests(*numbers: int, text: str = "request") -> list[str]:
    return [f"{text} {number}" for number in numbers]


def test_a_store_that_grows_is_copied_from_its_last_incomplete_file_on(tmp_path: Path) -> None:
    record(tmp_path / "a.db", 1, 7)
    assert copy(tmp_path) == ["blocks-000000", "blocks-000001"]
    record(tmp_path / "a.db", 8, 11)
    assert copy(tmp_path) == ["blocks-000001", "blocks-000002"]
    assert copy(tmp_path) == []
    assert exchanges(tmp_path) == requests(*range(1, 12))


def test_a_store_without_recorded_exchanges_gets_no_file(tmp_path: Path) -> None:
    asyncio.run(make_store(tmp_path / "a.db"))
    assert copy(tmp_path) == []


async def make_store(path: Path) -> None:
    async with await open_inline_store(path):
        pass


@pytest.mark.parametrize("killed_at", [0, 1, 2])
def test_a_killed_copy_is_continued_without_repetitions(tmp_path: Path, killed_at: int) -> None:
    record(tmp_path / "a.db", 1, 14)
    copy(tmp_path, leave_out=killed_at)
    record(tmp_path / "a.db", 15, 17)
    copy(tmp_path)
    assert exchanges(tmp_path) == requests(*range(1, 18))


@pytest.mark.parametrize("deleted", [3, 5, 6, 7, 9, 12])
def test_blocks_that_the_store_deletes_after_an_ingest_stay_in_bronze(tmp_path: Path, deleted: int) -> None:
    record(tmp_path / "a.db", 1, 7)
    copy(tmp_path)
    record(tmp_path / "a.db", 8, 13)
    delete(tmp_path / "a.db", f"number <= {deleted}")
    copy(tmp_path)
    assert exchanges(tmp_path) == requests(*range(1, 8), *range(max(8, deleted + 1), 14))
    record(tmp_path / "a.db", 14, 16)
    copy(tmp_path)
    assert exchanges(tmp_path) == requests(*range(1, 8), *range(max(8, deleted + 1), 17))


def test_a_store_whose_first_blocks_are_gone_is_copied_from_its_first_one_on(tmp_path: Path) -> None:
    record(tmp_path / "a.db", 1, 9)
    delete(tmp_path / "a.db", "number <= 3")
    assert copy(tmp_path) == ["blocks-000000-after-3", "blocks-000001"]
    record(tmp_path / "a.db", 10, 11)
    copy(tmp_path)
    assert exchanges(tmp_path) == requests(*range(4, 12))


def test_exchanges_that_a_power_failure_took_and_others_replaced_are_copied_again(tmp_path: Path) -> None:
    record(tmp_path / "a.db", 1, 13)
    copy(tmp_path)
    delete(tmp_path / "a.db", "number > 6")
    record(tmp_path / "a.db", 7, 8, text="other")
    copy(tmp_path)
    assert exchanges(tmp_path) == requests(*range(1, 7)) + requests(7, 8, text="other")


def test_exchanges_stay_in_bronze_when_the_store_has_none_any_more(tmp_path: Path) -> None:
    record(tmp_path / "a.db", 1, 3)
    copy(tmp_path)
    delete(tmp_path / "a.db", "true")
    copy(tmp_path)
    assert exchanges(tmp_path) == requests(1, 2, 3)


def test_a_damaged_block_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    record(tmp_path / "a.db", 1, 3)
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("UPDATE exchanges SET payload = x'00' WHERE number = 2")
    with pytest.raises(StoreDamaged, match="block 2 of its recorded exchanges"):
        copy(tmp_path)
    assert not list((tmp_path / "out").glob("*.parquet"))
    with pytest.raises(StoreDamaged, match="block 2 of its recorded exchanges"):
        inspect_store(tmp_path / "a.db", read_all=True)
