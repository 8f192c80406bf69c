"""Fixtures: emulators as processes, ended when the test is over."""

from tests.clients.processes import processes, serve

__all__ = ["processes", "serve"]
