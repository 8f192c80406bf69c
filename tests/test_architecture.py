"""The imports between packages, and between the parts of a package, are those of architecture.toml."""

import ast
import tomllib
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,  # `make check` runs it
    pytest.mark.xdist_group("architecture"),  # one process reads the code
]
ROOT = Path(__file__).parent.parent
TABLE: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("architecture.toml").read_text(encoding="utf-8")
)
PACKAGES = TABLE["packages"]
MAX_FILES_IN_A_FOLDER = 16
LARGER_FOLDERS = {
    "conformance/stories": "a file for each area of the catalogue of behaviours",
    "conformance/stories/consumer_groups": "the same, for groups of the consumer protocol",
    "lab/plan/scenarios": "a YAML file for each scenario",
    "classroom/lessons/texts": "a YAML file for each lesson",
}


def module_name(source: Path) -> str:
    """The dotted name below `regroup`: `server.net` for server/net/__init__.py."""
    return ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imported_names(source: Path) -> tuple[tuple[int, str], ...]:
    """Line and full dotted name of everything that a file imports, inside functions and TYPE_CHECKING too."""
    return tuple(_imported_names(ast.parse(source.read_text(encoding="utf-8"))))


def _imported_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{'.' * node.level}{node.module or ''}.{alias.name}") for alias in node.names)


SOURCES = {module_name(source): source for package in PACKAGES for source in sorted((ROOT / package).rglob("*.py"))}


def module_of(name: str) -> str | None:
    """The module below `regroup` that an imported name is, or is defined in."""
    name = name.removeprefix("regroup.")
    return name if name in SOURCES else next((each for each in (name.rpartition(".")[0],) if each in SOURCES), None)


@cache
def imports() -> dict[str, set[str]]:
    """Which modules each module below `regroup` imports."""
    return {
        module: {
            found
            for _, name in imported_names(source)
            if name.startswith("regroup.") and (found := module_of(name)) and found != module
        }
        for module, source in SOURCES.items()
    }


def imports_between_parts(package: str) -> dict[str, list[str]]:
    """Which parts (sub-packages and modules directly in the package) import which others."""
    parts: dict[str, set[str]] = {module.split(".")[1]: set() for module in SOURCES if module.startswith(f"{package}.")}
    for module, imported in imports().items():
        if module.startswith(f"{package}."):
            part = module.split(".")[1]
            parts[part] |= {each.split(".")[1] for each in imported if each.startswith(f"{package}.")} - {part}
    return {part: sorted(imported) for part, imported in parts.items()}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_the_packages_of_its_row(package: str) -> None:
    imported = {
        each.split(".")[0] for module, names in imports().items() if module.split(".")[0] == package for each in names
    }
    assert imported - {package} == set(PACKAGES[package])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_part_of_a_package_imports_the_parts_of_its_row(package: str) -> None:
    assert imports_between_parts(package) == {part: sorted(imported) for part, imported in TABLE[package].items()}


def circles(graph: dict[str, Iterable[str]]) -> list[str]:
    """The first circle of a graph; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_imports_form_a_circle() -> None:
    assert circles({module: sorted(imported) for module, imported in imports().items()}) == []
    for package in PACKAGES:
        assert circles(dict(imports_between_parts(package))) == [], f"between the parts of {package}"


def test_every_room_has_its_row() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert packages == set(PACKAGES) == set(TABLE) - {"packages"}


@pytest.mark.parametrize("folder", [*PACKAGES, "tests"])
def test_everything_is_imported_by_its_full_name(folder: str) -> None:
    """`import protocol` would load the module a second time, under another name."""
    for source in sorted((ROOT / folder).rglob("*.py")):
        for line, name in imported_names(source):
            bare = name.split(".")[0] in PACKAGES or name.startswith(".")
            assert not bare, f"{source.relative_to(ROOT)}:{line} imports {name}; write regroup.…"


def test_a_folder_holds_about_fifteen_files() -> None:
    for package in PACKAGES:
        for folder in [ROOT / package, *(path for path in (ROOT / package).rglob("*") if path.is_dir())]:
            name = folder.relative_to(ROOT).as_posix()
            files = [path.name for path in folder.iterdir() if path.suffix in (".py", ".yaml")]
            if name not in LARGER_FOLDERS:
                assert len(files) <= MAX_FILES_IN_A_FOLDER, f"{name} holds {len(files)} files"


CHANCE_AND_CLOCK = {"random", "secrets", "uuid", "time", "datetime"}
ONLY_TYPES = {"uuid.UUID", "random.Random"}
"""An id that is passed in, and a generator of random numbers that begins with a seed."""
HAVE_CHANCE_OR_CLOCK = {
    "mqtt/link.py": "clients that have lost a broker reconnect after random delays, so that not all reconnect at once",
    "server/clock.py": "a clock without arguments is the machine's",
    "server/cluster_options.py": "an environment without arguments draws random ids",
}
PACKAGES_OF_VALUES = [package for package in PACKAGES if package not in ("pipeline", "cli")]
"""The command line reads the clock and draws ids for all others; the pipeline names the files of a process."""

ON_THE_EVENT_LOOP = {
    "coordinator/runtime/group_coordinator.py": "it runs decide and evolve: it sets timers and waits for the store",
    "coordinator/runtime/async_requests.py": "awaitable requests over the same",
    "coordinator/runtime/timers.py": "deadlines as timers of the event loop",
    "coordinator/runtime/deadline_search.py": "whether the clock of the event loop still agrees with that of deadlines",
    "coordinator/runtime/kafka_log.py": "the emulated Kafka log may be slow",
}


def fetched_from(source: Path, modules: Collection[str]) -> Iterator[str]:
    """What a file imports of these modules: `uuid` if it is the whole module, `uuid.UUID` if it is one name."""
    return (name for _, name in imported_names(source) if name.split(".")[0] in modules)


def files_that_fetch(packages: Iterable[str], modules: Collection[str], allowed: Collection[str] = ()) -> set[str]:
    sources = [source for package in packages for source in (ROOT / package).rglob("*.py")]
    return {
        source.relative_to(ROOT).as_posix()
        for source in sources
        if any(name not in allowed for name in fetched_from(source, modules))
    }


def test_time_chance_and_ids_come_in_as_values() -> None:
    """So the lab can run the very same classes under its own clock, and one seed gives one history."""
    assert files_that_fetch(PACKAGES_OF_VALUES, CHANCE_AND_CLOCK, ONLY_TYPES) == set(HAVE_CHANCE_OR_CLOCK)


def test_chance_begins_with_a_seed() -> None:
    for package in PACKAGES_OF_VALUES:
        for source in sorted((ROOT / package).rglob("*.py")):
            text = source.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "Random" in text else ():
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Random":
                    assert node.args, f"{source.relative_to(ROOT)}:{node.lineno} lets the machine choose the seed"


def test_decide_and_evolve_use_no_event_loop() -> None:
    assert files_that_fetch(["coordinator"], {"asyncio", "threading"}) == set(ON_THE_EVENT_LOOP)
