"""The folder of the demonstration: only what an earlier one has left is removed, and nothing of anybody else."""

from collections.abc import Set
from pathlib import Path

from regroup.cli.demo.names import GROUP
from regroup.cli.terminal.text import listed
from regroup.storage.errors import NotAStore, StoreFailed
from regroup.storage.sqlite.files import WriterLock, beside, inspect
from regroup.storage.sqlite.opening import file_of
from regroup.storage.sqlite.threaded import open_store


async def make_room(store: Path) -> None:
    """A place for a new history. StoreError if something of somebody else's, or a running demonstration, is there."""
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"The folder {store.parent} cannot be made: {error.strerror}. Name another one with --directory."
        ) from error
    if await is_of_a_demonstration(store):
        remove(file_of(store))


async def is_of_a_demonstration(store: Path) -> bool:
    """False if there is nothing. Raises NotAStore for what no demonstration has written."""
    try:
        if inspect(store) == 0:
            return False
    except NotAStore as error:
        raise NotAStore(
            f"{store} was not written by regroup, and was left as it is. Name another folder with --directory."
        ) from error
    others = await groups_in(store) - {GROUP}
    if others:
        raise NotAStore(
            f"{store} holds other groups than that of the demonstration ({listed(others)}), and was left "
            "as it is. Name another folder with --directory."
        )
    return True


async def groups_in(store: Path) -> Set[str]:
    async with await open_store(store, read_only=True) as opened:
        return {group for group in await opened.heads() if group is not None}


def remove(store: Path) -> None:
    """The lock file stays: to remove it would let two processes lock two files of one name."""
    lock = WriterLock(store)
    try:
        for suffix in ("", "-wal", "-shm"):
            beside(store, suffix).unlink(missing_ok=True)
    finally:
        lock.release()
