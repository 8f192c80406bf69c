"""Epoch milliseconds by the lab's virtual clock, for tests of single coordinators."""

import asyncio
from collections.abc import Callable

from regroup.lab.simulation.virtual_clock import START_MS


def virtual_now() -> Callable[[], int]:
    """Epoch milliseconds by the running loop's clock."""
    loop = asyncio.get_running_loop()
    return lambda: START_MS + round(loop.time() * 1000)
