"""Emulators and consumers as processes, and one store that a real group has written."""

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import QUICK, EmulatorProcess, eventually
from tests.clients.libraries import PRODUCERS, Wish
from tests.clients.processes import consume, processes, serve

__all__ = ["consume", "processes", "serve"]

GROUP = "payments"
BOTH = [("orders", 0), ("orders", 1)]


@pytest.fixture(scope="session")
def written_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two members, one of them expelled; two reigns; offsets; snapshots from both ends; then closed in good order."""
    folder = tmp_path_factory.mktemp("written")
    settings = [word for each in QUICK for word in ("--set", each)]
    emulator = EmulatorProcess(folder / "groups.db", "--topic", "orders:2", *settings)
    with ExitStack() as stack:
        stack.enter_context(closing(emulator))
        emulator.start()
        PRODUCERS["confluent-kafka"](emulator.address, [(topic, partition, "#1") for topic, partition in BOTH])
        wishes = [Wish(emulator.address, GROUP, ["orders"], session_timeout_ms=each) for each in (60_000, 3_000)]
        first, second = [
            stack.enter_context(closing(ConsumerProcess("confluent-kafka", wish, folder / "consumers.log")))
            for wish in wishes
        ]
        eventually(lambda: len(first.owned) == len(second.owned) == 1, "two halves")
        eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(BOTH, 1), "the commits")
        emulator.terminate()
        emulator.start()
        second.kill()
        eventually(lambda: len(first.owned) == 2, "the takeover")
        first.leave()
        assert emulator.terminate() == 0
    return emulator.store


@pytest.fixture
def store(written_store: Path, tmp_path: Path) -> Path:
    """A copy of it, to do with as a test likes."""
    copy = tmp_path / "groups.db"
    copy.write_bytes(written_store.read_bytes())
    return copy
