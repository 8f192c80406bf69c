"""Fixtures: emulators and consumers as processes, ended when the test is over."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import FAST_SETTINGS, EmulatorProcess
from tests.clients.libraries import CONSUMERS, ConsumerOptions

Serve = Callable[..., EmulatorProcess]
Consume = Callable[..., ConsumerProcess]


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    """The processes of a test, ended in the reverse order of their start: consumers before their emulator."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def serve(processes: ExitStack, tmp_path: Path) -> Serve:
    """`serve("--topic", "orders:4")` starts an emulator with short delays; with a name it has its own store."""

    def start(*options: str, name: str = "groups") -> EmulatorProcess:
        settings = [word for each in FAST_SETTINGS for word in ("--set", each)]
        emulator = EmulatorProcess(tmp_path / f"{name}.db", *settings, *options)
        processes.callback(lambda: print(emulator.log))  # pytest shows it if the test fails
        processes.enter_context(closing(emulator))
        emulator.start()
        return emulator

    return start


@pytest.fixture
def consume(processes: ExitStack, tmp_path: Path) -> Consume:
    """`consume(library, ConsumerOptions(…))` starts a consumer."""
    numbers = count(1)

    def start(library: str, options: ConsumerOptions) -> ConsumerProcess:
        log = tmp_path / f"consumer-{next(numbers)}.log"
        consumer = processes.enter_context(closing(ConsumerProcess(library, options, log)))
        processes.callback(lambda: print(*consumer.output, consumer.errors, sep="\n"))
        return consumer

    return start


def quick_with(quick: str, libraries: Collection[str] = tuple(CONSUMERS)) -> list[Any]:
    """All these libraries as parameters of a test; only `quick` runs in `make test`."""
    return [name if name == quick else pytest.param(name, marks=pytest.mark.slow) for name in libraries]
