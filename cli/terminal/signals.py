"""Handles signals that end a command which otherwise runs without end."""

import asyncio
import signal


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM and Ctrl-C set; must be called inside the event loop."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
