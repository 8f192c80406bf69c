"""The architecture is a table, and this test reads the imports."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "storage": set(),
    "assignors": {"protocol"},
    "coordinator": {"protocol", "assignors", "storage"},
    "members": {"protocol", "assignors"},
    "server": {"protocol", "assignors", "coordinator", "members", "storage"},
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


def test_a_system_under_test_is_never_imported_by_the_core() -> None:
    """Chance and the wall clock come in as values: the pure rooms never fetch them."""
    forbidden = {"random", "uuid", "time", "datetime", "secrets"}
    for room in ("protocol", "assignors"):
        for source in sorted((ROOT / room).rglob("*.py")):
            for line, name in imported_modules(source):
                assert name.split(".")[0] not in forbidden, f"{source.relative_to(ROOT)}:{line} imports {name}"
