"""Every test here has emulators at hand."""

from tests.clients.processes import processes, serve

__all__ = ["processes", "serve"]
