"""Fixtures that start emulators and consumers."""

from tests.clients.processes import consume, processes, serve

__all__ = ["consume", "processes", "serve"]
