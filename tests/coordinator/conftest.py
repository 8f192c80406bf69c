"""The asyncio tests of this room run on a clock that jumps."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from regroup.lab.simulation.virtual_clock import VirtualLoop
from tests.coordinator.desk import Desk, SlowStore


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualLoop}


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk(SlowStore())
    await desk.coordinator.start()
    yield desk
    desk.coordinator.stop()
    if desk.journal.failure is None:
        await desk.journal.close()


@pytest.fixture
def store(desk: Desk) -> SlowStore:
    assert isinstance(desk.store, SlowStore)
    return desk.store
