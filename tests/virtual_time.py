"""The lab's clock, for tests of coordinators that stand alone."""

import asyncio
from collections.abc import Callable

from regroup.lab.simulation.virtual_clock import BEGIN_MS


def virtual_now() -> Callable[[], int]:
    """Epoch milliseconds by the running loop's clock."""
    loop = asyncio.get_running_loop()
    return lambda: BEGIN_MS + round(loop.time() * 1000)
