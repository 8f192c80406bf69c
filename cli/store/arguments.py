"""What the commands that look at a store have in common."""

import argparse
import shlex
from pathlib import Path

from regroup.storage.errors import NotAStore
from regroup.storage.sqlite.files import inspect
from regroup.storage.sqlite.store import SqlStore
from regroup.storage.sqlite.threaded import open_store


def add_store(parser: argparse.ArgumentParser) -> None:
    """The store comes first. It may be written to by a running emulator at the same time."""
    parser.add_argument("store", metavar="STORE", type=Path, help="the file that `regroup serve --store` writes")


def add_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", metavar="G", help="only this group")


async def open_history(path: Path) -> SqlStore:
    """The store, for reading. Whoever named a file that is not there is told which command makes one."""
    if inspect(path) == 0:
        command = f"regroup serve --store {shlex.quote(str(path))}"
        raise NotAStore(f"There is no store in {path} yet. `{command}` makes one; or name another file.")
    return await open_store(path, read_only=True)
