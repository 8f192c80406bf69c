"""Opens a store to read it, and makes the error message for a group that is not in it."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from regroup.cli.terminal.text import join_names
from regroup.storage.errors import NotAStore
from regroup.storage.sqlite.files import store_exists
from regroup.storage.sqlite.store import SqliteStore
from regroup.storage.sqlite.threaded import open_store


async def open_store_to_read(path: Path) -> SqliteStore:
    """Open a store, which a running emulator may be writing to. Raises NotAStore if the file is missing or empty."""
    if not store_exists(path):
        command = f"regroup serve --store {shlex.quote(str(path))}"
        raise NotAStore(f"{path}: there is no store yet. `{command}` creates one.")
    return await open_store(path, read_only=True)


def unknown_group(group: str, known: Iterable[str]) -> str:
    return f"unknown group {group!r}; groups in this store: {join_names(known)}"
