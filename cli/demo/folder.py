"""The store of the demo: that of an earlier demo is replaced, and no other file is touched."""

from pathlib import Path

from regroup.cli.terminal.text import join_names
from regroup.storage.errors import NotAStore, StoreFailed
from regroup.storage.sqlite.files import WriterLock, sibling_file, store_exists
from regroup.storage.sqlite.opening import resolve_store_path
from regroup.storage.sqlite.threaded import open_store


async def prepare_store_path(store: Path, group_id: str) -> None:
    """Make the folder, and remove the store of an earlier demo, whose only group is `group_id`.

    Raises NotAStore for a file of another program or another group, StoreLocked if that demo still runs, and
    StoreFailed if the folder cannot be made.
    """
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"The folder {store.parent} cannot be made: {error.strerror}. Name another one with --directory."
        ) from error
    try:
        if not store_exists(store):
            return
    except NotAStore as error:
        raise NotAStore(
            f"{store} was not written by regroup, and was left as it is. Name another folder with --directory."
        ) from error
    async with await open_store(store, read_only=True) as opened:
        others = {group for group in await opened.heads() if group not in (None, group_id)}
    if others:
        raise NotAStore(
            f"{store} holds other groups than that of the demo ({join_names(map(str, others))}), and was left as it "
            "is. Name another folder with --directory."
        )
    _remove(resolve_store_path(store))


def _remove(store: Path) -> None:
    """Remove the store's files but the lock file: without it, two processes could lock two files of one name."""
    lock = WriterLock(store)
    try:
        for suffix in ("", "-wal", "-shm"):
            sibling_file(store, suffix).unlink(missing_ok=True)
    finally:
        lock.release()
