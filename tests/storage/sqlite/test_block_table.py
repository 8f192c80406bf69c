"""Recorded exchanges and observations in the file of a store: made when they are needed, never synchronized, and read
with suspicion."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from regroup.storage.errors import StoreDamaged, StoreFull
from regroup.storage.records import NewExchangeBlock, NewRecord
from regroup.storage.sqlite.copying import copy_store
from regroup.storage.sqlite.threaded import open_store

BLOCK = NewExchangeBlock(1, 2, 1, b"rows" * 1_000)
RECORD = NewRecord("a", 1, 1, 7, "joined", 1, b"{}", None)


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


async def test_a_store_has_the_table_from_the_first_recording_on(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with await open_store(path) as store:
        await store.append([RECORD])
    before = tables(path)
    async with await open_store(path, read_only=True) as store:
        assert [block async for block in store.read_exchanges()] == []
    async with await open_store(path) as store:
        await store.append_exchanges(BLOCK, max_bytes=1_000_000)
    assert tables(path) - before == {"exchanges"}
    async with await open_store(path) as store:
        await store.append_observations(BLOCK, max_bytes=1_000_000)
    assert tables(path) - before == {"exchanges", "observations"}
    copy_store(path, tmp_path / "copy")
    async with await open_store(tmp_path / "copy", read_only=True) as store:
        assert [block.payload async for block in store.read_exchanges()] == [BLOCK.payload]
        assert [block.payload async for block in store.read_observations()] == [BLOCK.payload]


async def test_events_stay_as_durable_as_they_were(tmp_path: Path) -> None:
    async with await open_store(tmp_path / "store", durability="disk") as store:
        for _ in range(2):
            await store.append_exchanges(BLOCK, max_bytes=1)
            assert await store._connection.execute("PRAGMA synchronous") == [(2,)]


async def test_a_full_disk_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    async with await open_store(tmp_path / "store", durability="disk") as store:
        await store.append([RECORD])
        await store.append_exchanges(BLOCK, max_bytes=1_000_000)
        ((pages,),) = await store._connection.execute("PRAGMA page_count")
        await store._connection.execute(f"PRAGMA max_page_count = {pages}")
        large = NewExchangeBlock(
            3, 4, 1, bytes(range(256)) * 4_000 + b"".join(map(str.encode, map(str, range(99_999))))
        )
        with pytest.raises(StoreFull):
            await store.append_exchanges(large, max_bytes=10_000_000)
        assert await store._connection.execute("PRAGMA synchronous") == [(2,)]
        await store._connection.execute("PRAGMA max_page_count = 1000000")
        await store.append_exchanges(large, max_bytes=10_000_000)
        assert [block.number async for block in store.read_exchanges()] == [1, 2]
        assert await store.append([NewRecord("a", 2, 1, 7, "joined", 1, b"{}", None)]) == 2


@pytest.mark.parametrize("payload", ["x'00'", "zeroblob(100)", "substr(payload, 1, 20)"])
@pytest.mark.parametrize(("table", "what"), [("exchanges", "recorded exchanges"), ("observations", "observations")])
async def test_a_damaged_block_is_one_clear_error_and_events_can_be_read(
    tmp_path: Path, payload: str, table: str, what: str
) -> None:
    path = tmp_path / "store"
    async with await open_store(path) as store:
        await store.append([RECORD])
        await store.append_exchanges(BLOCK, max_bytes=1_000_000)
        await store.append_observations(BLOCK, max_bytes=1_000_000)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET payload = {payload}")
    async with await open_store(path, read_only=True) as store:
        with pytest.raises(StoreDamaged, match=f"block 1 of its {what}"):
            assert [
                block async for block in (store.read_exchanges if table == "exchanges" else store.read_observations)()
            ]
        assert len([record async for record in store.read()]) == 1
