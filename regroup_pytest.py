"""A pytest plugin: an emulator of Kafka for each test, and the story of its groups in the report of a failed test.

    def test_a_dead_consumer_is_replaced(kafka): ...                              # an emulator of its own

    @pytest.mark.kafka(topics={"orders": 6}, brokers=3, settings={"group.max.size": 5})
    def test_a_full_group(kafka): ...                                             # the arguments of Emulator

    def test_quickly(kafka_session):                                              # one emulator for the whole run
        group = kafka_session.unique_name("billing")

The plugin stands outside of the namespace package `regroup`: pytest rewrites the packages of a plugin's distribution,
and would take the packages `server` and `storage` of a tested project for those of regroup. It imports nothing of
regroup before a test asks for an emulator. docs/testing.md has more.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from regroup.testing import Emulator

MARKER = (
    "kafka(topics={}, brokers=1, settings={}, store=None, clock='real', create_topics=False, wait_timeout_s=10, "
    "record=True): the arguments of the Emulator that the fixture `kafka` starts"
)


class Watched:
    """The emulator of a test, and the position in its history where the test began."""

    def __init__(self, emulator: Emulator, folders: pytest.TempPathFactory) -> None:
        self.emulator = emulator
        self.folders = folders
        self.position = emulator.position()


# The plugin is loaded by every pytest of its environment, so it uses nothing that came after pytest 6.
WATCHED: WeakKeyDictionary[pytest.Item, list[Watched]] = WeakKeyDictionary()
SESSION: WeakKeyDictionary[Any, Watched] = WeakKeyDictionary()
"""The shared emulator, by the configuration of the run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "an emulator of Kafka (regroup)")
    group.addoption(
        "--kafka-keep",
        metavar="DIR",
        type=Path,
        help="write the history of every test's emulator to a SQLite file in DIR, not only of the tests that fail",
    )
    group.addoption(
        "--kafka-record",
        action="store_true",
        help="write the requests and responses to that file too, as it is always done for a test that fails",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulator of Kafka for this test alone; the marker `kafka` has its arguments."""
    from regroup.testing import Emulator  # noqa: PLC0415  # a suite that asks for no emulator loads nothing of it

    with Emulator(**marked_options(request.node)) as emulator:
        WATCHED.setdefault(request.node, []).append(Watched(emulator, tmp_path_factory))
        yield emulator


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """One emulator for all tests of the run, or of an xdist worker. `unique_name` keeps the tests apart."""
    from regroup.testing import Emulator  # noqa: PLC0415  # as above

    with Emulator() as emulator:
        SESSION[request.config] = Watched(emulator, tmp_path_factory)
        yield emulator


def marked_options(node: pytest.Item) -> dict[str, Any]:
    """The arguments of all markers `kafka` of a test; where two differ, the one nearer to the test counts."""
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("kafka"))):
        if marker.args:
            raise pytest.UsageError(f"the marker kafka takes arguments by name, not {marker.args!r}")
        options |= marker.kwargs
    return options


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note where the test and its fixtures begin in the history of the shared emulator."""
    fixtures = getattr(item, "fixturenames", ())
    if "kafka_session" not in fixtures:
        return
    if "kafka" not in fixtures and marked_options(item):
        raise pytest.UsageError("the marker kafka has the arguments of the fixture kafka; kafka_session takes none")
    shared = SESSION.get(item.config)
    if shared is not None:
        WATCHED.setdefault(item, []).append(Watched(shared.emulator, shared.folders))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Add the story of the test's groups to the report of a failure, and keep the history."""
    report = (yield).get_result()
    if report.when == "teardown":
        return
    folder = item.config.getoption("--kafka-keep")
    for number, watched in enumerate(watched_by(item)):
        if report.failed or (folder and report.when == "call"):
            exchanges = report.failed or item.config.getoption("--kafka-record")
            kept = keep_history(watched, item, folder, number, exchanges=exchanges)
            if report.failed:
                report.sections.append(("Kafka groups", f"{story_of(watched)}\n{kept}"))


def watched_by(item: pytest.Item) -> list[Watched]:
    """The emulators of the test. The shared one has begun with the first test that asks for it."""
    watched = WATCHED.get(item, [])
    shared = SESSION.get(item.config)
    is_missing = shared is not None and all(each.emulator is not shared.emulator for each in watched)
    if shared is not None and is_missing and "kafka_session" in getattr(item, "fixturenames", ()):
        return [*watched, shared]
    return watched


def story_of(watched: Watched) -> str:
    """The last events and requests of the groups that the test touched."""
    try:
        return watched.emulator.story(since=watched.position)
    except Exception as error:  # noqa: BLE001  # the report of the failure is worth more than this part of it
        return f"the groups cannot be shown: {error}"


def file_name_of(node_id: str) -> str:
    """The end of a test's id in characters for file names, and a checksum: no two tests have the same."""
    return f"{re.sub(r'[^a-zA-Z0-9_.-]+', '_', node_id)[-100:]}-{crc32(node_id.encode()):08x}"


def keep_history(watched: Watched, item: pytest.Item, folder: Path | None, number: int, *, exchanges: bool) -> str:
    """Write the history to a file, and return a line that names it."""
    store = watched.emulator.options.store
    if store is not None:
        return kept_text(Path(store))
    name = file_name_of(item.nodeid) + (f"-{number + 1}" if number else "")
    try:
        if folder is None:
            path = watched.folders.mktemp(f"kafka-{name}"[:60]) / "history.db"
        else:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{name}.db"
            path.unlink(missing_ok=True)
        watched.emulator.save(path, exchanges=exchanges)
    except Exception as error:  # noqa: BLE001  # as above
        return f"the history cannot be kept: {error}"
    return kept_text(path)


def kept_text(path: Path) -> str:
    """Where the history is, and the commands that show it, each on a line of its own."""
    called = "regroup" if shutil.which("regroup") else f"{shlex.quote(sys.executable)} -m regroup"
    shows = {"view": "as a page in the browser", "story": "in sentences", "exchanges": "its requests and responses"}
    commands = [f"  {called} {word} {shlex.quote(str(path))}  # {what}" for word, what in shows.items()]
    return "\n".join([f"the history is in {path}; to look at it:", *commands])
