"""What holds for every test."""

import os
import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# A property is judged by what happens, never by how long it takes: the machine may be busy.
settings.register_profile("hunting", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Whoever runs the tests sees the same examples; new ones are looked for with `--hypothesis-profile=hunting`.
settings.register_profile("repeatable", settings.get_profile("hunting"), derandomize=True)
settings.load_profile("repeatable")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many processes again as there are cores: many a test waits, for a session's end or somebody's client."""
    cores = os.cpu_count() or 1
    return cores + (cores + 1) // 2


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
