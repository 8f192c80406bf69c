"""The architecture is a table, and this test reads the imports."""

import ast
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "storage": set(),
    "assignors": {"protocol"},
    "coordinator": {"protocol", "assignors", "storage"},
    "members": {"protocol", "assignors", "mqtt"},
    "mqtt": set(),
    "server": {"protocol", "assignors", "coordinator", "mqtt", "storage"},
    "conformance": {"protocol", "assignors", "members"},
    "lab": {"protocol", "assignors", "coordinator", "members", "storage", "server"},
    "pipeline": {"protocol", "storage", "coordinator", "lab"},
    "cli": {
        "protocol",
        "assignors",
        "coordinator",
        "members",
        "storage",
        "server",
        "conformance",
        "lab",
        "pipeline",
        "mqtt",
    },
}


def imported_modules(source: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a file imports."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_its_row_names(room: str) -> None:
    for source in sorted((ROOT / room).rglob("*.py")):
        for line, name in imported_modules(source):
            if name.startswith("regroup."):
                other = name.split(".")[1]
                where = f"{source.relative_to(ROOT)}:{line}"
                assert other == room or other in MAY_IMPORT[room], f"{where} imports {name}; {room} may not"


@pytest.mark.parametrize("folder", [*MAY_IMPORT, "tests"])
def test_everything_is_imported_by_its_full_name(folder: str) -> None:
    """`import protocol` would load the module a second time, under another name."""
    for source in sorted((ROOT / folder).rglob("*.py")):
        for line, name in imported_modules(source):
            bare = name.split(".")[0] in MAY_IMPORT or name.startswith(".")
            assert not bare, f"{source.relative_to(ROOT)}:{line} imports {name}; write regroup.…"


def test_every_room_has_its_row() -> None:
    rooms = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert rooms == set(MAY_IMPORT)


CHANCE_AND_CLOCK = {"random", "secrets", "uuid", "time", "datetime"}
ONLY_TYPES = {"uuid.UUID", "random.Random"}
"""An id that somebody has drawn, and chance that begins with a seed."""
DRAW_THEMSELVES = {
    "mqtt/link.py": "who has lost a broker comes back after a pause by chance, so that not all come at once",
}
ROOMS_OF_VALUES = [room for room in MAY_IMPORT if room not in ("pipeline", "cli")]
"""The command line looks at the clock and draws ids, for all others; the pipeline names the files of a process."""

ON_THE_EVENT_LOOP = {
    "coordinator/runtime/group_coordinator.py": "it drives the machine: it sets timers and waits for the disk",
    "coordinator/runtime/awaitable.py": "the same for whoever awaits an answer",
    "coordinator/runtime/timers.py": "deadlines that come from the machine, as timers of the loop",
    "coordinator/runtime/kafka_log.py": "Kafka's own log may take its time",
}


def fetched_from(source: Path, modules: Collection[str]) -> Iterator[str]:
    """What a file imports of these modules: `uuid` if it is the whole module, `uuid.UUID` if it is one name."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in modules)
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in modules:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files_that_fetch(rooms: Iterable[str], modules: Collection[str], allowed: Collection[str] = ()) -> set[str]:
    sources = [source for room in rooms for source in (ROOT / room).rglob("*.py")]
    return {
        source.relative_to(ROOT).as_posix()
        for source in sources
        if any(name not in allowed for name in fetched_from(source, modules))
    }


def test_time_chance_and_ids_come_in_as_values() -> None:
    """So the lab can run the very same classes under its own clock, and one seed gives one history."""
    assert files_that_fetch(ROOMS_OF_VALUES, CHANCE_AND_CLOCK, ONLY_TYPES) == set(DRAW_THEMSELVES)


def test_chance_begins_with_a_seed() -> None:
    for room in ROOMS_OF_VALUES:
        for source in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Random":
                    assert node.args, f"{source.relative_to(ROOT)}:{node.lineno} lets the machine choose the seed"


def test_the_group_as_a_machine_knows_no_event_loop() -> None:
    assert files_that_fetch(["coordinator"], {"asyncio", "threading"}) == set(ON_THE_EVENT_LOOP)
