"""Every test here has emulators and consumers at hand."""

from tests.clients.processes import consume, library, processes, serve

__all__ = ["consume", "library", "processes", "serve"]
