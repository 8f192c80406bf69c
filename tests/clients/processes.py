"""Fixtures: emulators and consumers as processes, ended when the test is over."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import pytest

from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import QUICK, EmulatorProcess
from tests.clients.libraries import CONSUMERS, Wish

Serve = Callable[..., EmulatorProcess]
Consume = Callable[..., ConsumerProcess]


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    """Ended in the reverse order, so consumers go before the emulator that they talk to."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def serve(processes: ExitStack, tmp_path: Path) -> Serve:
    """`serve("--topic", "orders:4")` starts an emulator with quick settings; a name gives it a store of its own."""

    def start(*options: str, name: str = "groups") -> EmulatorProcess:
        settings = [word for each in QUICK for word in ("--set", each)]
        emulator = EmulatorProcess(tmp_path / f"{name}.db", *settings, *options)
        processes.callback(lambda: print(emulator.log))  # pytest shows it if the test fails
        processes.enter_context(closing(emulator))
        emulator.start()
        return emulator

    return start


@pytest.fixture
def consume(processes: ExitStack, tmp_path: Path) -> Consume:
    """`consume(library, Wish(…))` starts a consumer."""
    numbers = count(1)

    def start(library: str, wish: Wish) -> ConsumerProcess:
        log = tmp_path / f"consumer-{next(numbers)}.log"
        consumer = processes.enter_context(closing(ConsumerProcess(library, wish, log)))
        processes.callback(lambda: print(*consumer.said, consumer.errors, sep="\n"))
        return consumer

    return start


@pytest.fixture(params=sorted(CONSUMERS))
def library(request: pytest.FixtureRequest) -> str:
    """Each client library in turn."""
    return str(request.param)
