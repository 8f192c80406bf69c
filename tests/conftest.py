"""What holds for every test."""

import signal
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def nobody_inherits_a_log() -> Iterator[None]:
    """Whoever sets up the log, as `regroup serve` does, sets it up for himself."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """A shell that starts the tests in the background makes them, and all that they start, deaf to SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
