"""Fixtures that start emulators."""

from tests.clients.processes import processes, serve

__all__ = ["processes", "serve"]
