"""Emulators as processes of their own, ended when the test is over."""

from collections.abc import Iterator

import pytest
import structlog

from regroup.tests.clients.processes import processes, serve

__all__ = ["processes", "serve"]


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """`regroup serve` in this process sets up a log that the next test does not want."""
    yield
    structlog.reset_defaults()
