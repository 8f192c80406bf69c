"""Emulators with a clock that is turned by hand, and what they have kept."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from regroup.server.explanation.history import KnownHistory, read_known_history
from regroup.storage.sqlite.threaded import open_store
from regroup.testing import Emulator

StartEmulator = Callable[..., Emulator]


@pytest.fixture
def emulator() -> Iterator[StartEmulator]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(Emulator(topics={"orders": 2}, clock="manual", **options))


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator()


class Reader:
    """Reads what an emulator has kept, with or without its exchanges."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0

    def history(self, kafka: Emulator, *, exchanges: bool = True) -> KnownHistory:
        self._files += 1
        path = self._folder / f"{self._files}.db"
        kafka.save(path, exchanges=exchanges)

        async def read() -> KnownHistory:
            async with await open_store(path, read_only=True) as store:
                return await read_known_history(store, "billing")

        return asyncio.run(read())


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)
