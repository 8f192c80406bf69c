"""The event loop under the server: asyncio's own, or uvloop's, which takes less time for a single request."""

import argparse
import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Final

from regroup.coordinator.settings import InvalidSetting

ASYNCIO: Final = "asyncio"
UVLOOP: Final = "uvloop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loop",
        choices=(ASYNCIO, UVLOOP),
        default=ASYNCIO,
        help="the event loop; uvloop, which pip brings with 'kafka-regroup[uvloop]', is quicker when clients wait for "
        "each answer before they ask again (default: asyncio)",
    )


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes such a loop. InvalidSetting if it is not installed."""
    if name == ASYNCIO:
        return asyncio.new_event_loop
    try:
        make: Callable[[], asyncio.AbstractEventLoop] = import_module(UVLOOP).new_event_loop
    except ImportError:
        raise InvalidSetting("uvloop is not installed: pip install 'kafka-regroup[uvloop]'.") from None
    return make
