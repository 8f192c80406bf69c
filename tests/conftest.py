"""Settings, options and fixtures of all tests."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.conjecture.providers import Constants

from tests.collection import begin_elsewhere
from tests.scheduling import LargeFilesAsUnits, file_of

# No property fails because an example took long: the machine may be busy.
settings.register_profile("hunting", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Property tests repeat the same examples; `--hypothesis-profile=hunting` draws new ones, and more.
settings.register_profile(
    "repeatable", settings.get_profile("hunting"), derandomize=True, database=None, max_examples=10
)
settings.load_profile("repeatable")
# Hypothesis also draws constants of the tested code, for which each process parses every module of a clean clone.
# Repeated examples that change with each constant are not worth that; `hunting` has them.

# Images of containers often forbid Python to keep what it compiles. Then each of the hundreds of processes that tests
# start compiles the emulator again, which takes longer than most of their tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Messages of argparse are English whatever the machine's language is. Without this, each parser that is made, here and
# in the processes that tests start, also looks for translations in the file system, which takes longer than making it.
os.environ["LANGUAGE"] = "C"


LONG_TESTS_FIRST = (
    "tests/conformance/test_brokers.py",
    "tests/make_docs/",
    "tests/pipeline/",
    "tests/clients/",
    "tests/classroom/page/",
    "tests/robustness/",
    "tests/control/test_live_page",
    "tests/conformance/",
    "tests/test_wheel.py",
    "tests/cli/",
    "tests/testing/",
    "tests/server/mqtt/",
)
"""Folders and files in the order in which their tests start, before all others: many of them wait for other processes.
If a long one started last, the other processes would be idle."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="N/OF", help="run only part N of OF equal parts, numbered from 0")


def pytest_configure(config: pytest.Config) -> None:
    begin_elsewhere(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the parameters that are not quick, and select the tests of one part, so that a rotation runs every test."""
    if settings.get_current_profile_name() == "repeatable":
        providers._get_local_constants = Constants
    for item in items:
        quick = item.get_closest_marker("quick")
        if quick and not any(part in item.name for part in quick.args):
            item.add_marker(pytest.mark.slow)
    items.sort(key=start_order)
    if not (part := config.getoption("--part")):
        return
    number, parts = map(int, part.split("/"))
    selected = [item for item in items if crc32(item.nodeid.encode()) % parts == number % parts]
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = selected


def start_order(item: pytest.Item) -> tuple[int, list[str]]:
    """What sorts the tests: those of `LONG_TESTS_FIRST`, then by file, in whichever order the files were collected."""
    places = (place for place, each in enumerate(LONG_TESTS_FIRST) if item.nodeid.startswith(each))
    return next(places, len(LONG_TESTS_FIRST)), file_of(item.nodeid).split("/")


def pytest_collectstart() -> None:
    """Keep the garbage collector from looking through thousands of collected tests again and again."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than there are cores, because many tests wait: for a session timeout, or a client."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LargeFilesAsUnits | None:
    return LargeFilesAsUnits(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture(autouse=True)
def reset_structlog() -> Iterator[None]:
    """Restore the configuration of structlog, which `regroup serve` changes for the whole process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def default_sigint() -> Iterator[None]:
    """Handle SIGINT, which a shell lets its background processes, and all their children, ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
