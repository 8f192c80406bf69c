"""The asyncio tests run on a virtual clock, which jumps to the next timer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from regroup.lab.simulation.virtual_clock import VirtualLoop
from tests.coordinator.coordinator_harness import CoordinatorHarness, GatedStore


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualLoop}


@pytest.fixture
async def harness() -> AsyncIterator[CoordinatorHarness]:
    harness = CoordinatorHarness(GatedStore())
    await harness.coordinator.start()
    yield harness
    harness.coordinator.stop()
    if harness.journal.failure is None:
        await harness.journal.close()


@pytest.fixture
def store(harness: CoordinatorHarness) -> GatedStore:
    assert isinstance(harness.store, GatedStore)
    return harness.store
