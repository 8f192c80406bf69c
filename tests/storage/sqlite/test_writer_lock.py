"""Which second writers a lock keeps out, by any name of the file; a pipe in place of a store."""

import os
from pathlib import Path

import pytest

from regroup.storage.errors import NotAStore, StoreLocked
from regroup.storage.sqlite.threaded import open_store


async def test_a_hard_link_of_a_store_that_is_being_written_is_refused(tmp_path: Path) -> None:
    async with await open_store(tmp_path / "store"):
        os.link(tmp_path / "store", tmp_path / "link")
        with pytest.raises(StoreLocked, match="by another name"):
            await open_store(tmp_path / "link")
    async with await open_store(tmp_path / "link"):
        with pytest.raises(StoreLocked, match="by another name"):
            await open_store(tmp_path / "store")


async def test_a_symbolic_link_of_a_store_that_is_being_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    async with await open_store(tmp_path / "store"):
        with pytest.raises(StoreLocked, match=f"number {os.getpid()}"):
            await open_store(tmp_path / "link")


async def test_a_deleted_lock_file_lets_no_second_writer_in(tmp_path: Path) -> None:
    async with await open_store(tmp_path / "store"):
        (tmp_path / "store.lock").unlink()
        with pytest.raises(StoreLocked, match="lock file was deleted"):
            await open_store(tmp_path / "store")
    async with await open_store(tmp_path / "store"):
        pass


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, read_only: bool) -> None:
    os.mkfifo(tmp_path / "store")
    with pytest.raises(NotAStore, match="a pipe or a device"):
        await open_store(tmp_path / "store", read_only=read_only)
