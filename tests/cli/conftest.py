"""Emulators and consumers as processes, a store that a real group has written, and commands run in this process."""

import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest

from regroup.cli.main import main
from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import FAST_SETTINGS, EmulatorProcess, eventually
from tests.clients.libraries import PRODUCERS, ConsumerOptions
from tests.clients.processes import consume, processes, serve

__all__ = ["consume", "processes", "serve"]

GROUP = "payments"
ORDERS_PARTITIONS = [("orders", 0), ("orders", 1)]


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str


RunCommand = Callable[..., CommandResult]


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests that read the written store to one process, since it takes seconds to write."""
    for item in items:
        if "written_store" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("written store"))


@pytest.fixture(autouse=True)
def called_as_regroup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed commands begin with the word by which the program was called, which is pytest's here."""
    monkeypatch.setattr(sys, "argv", ["regroup"])


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """`run_command("verify", path)` runs `regroup verify PATH` in this process, which is quicker than a new one."""

    def run(*words: object) -> CommandResult:
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:
            code = int(end.code or 0)
        return CommandResult(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def written_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a cleanly stopped emulator.

    It holds two members, one of which was removed, two coordinator epochs, offsets, and snapshots of both epochs.
    """
    folder = tmp_path_factory.mktemp("written")
    settings = [word for each in FAST_SETTINGS for word in ("--set", each)]
    emulator = EmulatorProcess(folder / "groups.db", "--topic", "orders:2", *settings)
    with ExitStack() as stack:
        stack.enter_context(closing(emulator))
        emulator.start()
        PRODUCERS["confluent-kafka"](
            emulator.address, [(topic, partition, "#1") for topic, partition in ORDERS_PARTITIONS]
        )
        options = [
            ConsumerOptions(emulator.address, GROUP, ["orders"], session_timeout_ms=each) for each in (60_000, 3_000)
        ]
        first, second = [
            stack.enter_context(closing(ConsumerProcess("confluent-kafka", each, folder / "consumers.log")))
            for each in options
        ]
        eventually(lambda: len(first.owned_partitions) == len(second.owned_partitions) == 1, "two halves")
        eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ORDERS_PARTITIONS, 1), "the commits")
        emulator.terminate()
        emulator.start()
        second.kill()
        eventually(lambda: len(first.owned_partitions) == 2, "the takeover")
        first.leave()
        assert emulator.terminate() == 0
    return emulator.store


@pytest.fixture
def store(written_store: Path, tmp_path: Path) -> Path:
    """A copy of that store, which a test may change."""
    copy = tmp_path / "groups.db"
    copy.write_bytes(written_store.read_bytes())
    return copy
