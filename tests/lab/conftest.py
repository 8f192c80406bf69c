"""The asyncio tests of this room run on the lab's virtual clock."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from regroup.lab.simulation.virtual_clock import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualLoop}
