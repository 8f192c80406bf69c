"""What an emulator does if a service beside its brokers, or a connection of its own, fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from regroup.server.broker_cluster import BrokerCluster
from regroup.storage.sqlite.threaded import open_store
from regroup.testing import ActRefused, AsyncEmulator
from regroup.testing.options import EmulatorOptions


class Service:
    """A service that fails at its start or end when a test says so."""

    def __init__(self) -> None:
        self.fails_at_start = self.fails_at_end = False
        self.running = 0

    @asynccontextmanager
    async def __call__(self, cluster: BrokerCluster) -> AsyncIterator[None]:
        if self.fails_at_start:
            raise OSError("the service cannot start")
        self.running += 1
        yield
        self.running -= 1
        if self.fails_at_end:
            raise OSError("the service cannot stop")


def emulator_with(*services: Service, store: Path | None = None) -> AsyncEmulator:
    options = EmulatorOptions(topics={"orders": 2}, store=store).process_options()
    return AsyncEmulator(replace(options, services=services))


async def assert_closed(emulator: AsyncEmulator, store: Path) -> None:
    """Its port and its store are free."""
    assert not emulator.is_running
    with pytest.raises(OSError, match="onnect"):
        await emulator.connect()
    await (await open_store(store)).close()


async def test_brokers_and_store_are_closed_if_a_service_cannot_stop(tmp_path: Path) -> None:
    service = Service()
    emulator = await emulator_with(service, store=tmp_path / "store.db").start()
    service.fails_at_end = True
    with pytest.raises(OSError, match="cannot stop"):
        await emulator.close()
    await assert_closed(emulator, tmp_path / "store.db")


async def test_brokers_and_store_are_closed_if_a_connection_cannot_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator = await emulator_with(store=tmp_path / "store.db").start()
    connection = await emulator.connect()
    close = connection.close

    async def fail() -> None:
        await close()
        raise OSError("the connection cannot be closed")

    monkeypatch.setattr(connection, "close", fail)
    with pytest.raises(OSError, match="cannot be closed"):
        await emulator.close()
    await assert_closed(emulator, tmp_path / "store.db")


async def test_a_restart_that_fails_can_be_tried_again() -> None:
    first, second = Service(), Service()
    emulator = await emulator_with(first, second).start()
    await emulator.kill()
    second.fails_at_start = True
    with pytest.raises(OSError, match="cannot start"):
        await emulator.restart()
    assert (emulator.is_running, first.running, second.running) == (False, 0, 0)
    second.fails_at_start = False
    await emulator.restart()
    assert (emulator.is_running, first.running, second.running) == (True, 1, 1)
    with pytest.raises(ActRefused, match="the emulator runs"):
        await emulator.restart()
    await emulator.close()
