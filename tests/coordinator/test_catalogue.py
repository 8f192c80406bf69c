"""Nothing of the catalogue of Apache Kafka's behaviours is forgotten: each has a test, or a row that says why not.

`behaviours.jsonl` lists the behaviours of classic groups, one a line: 1 is core, 2 ordinary, 3 exotic.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent
ROWS = TESTS.parent / "docs" / "not-emulated.md"


class Behaviour(msgspec.Struct, frozen=True):
    id: str
    area: str
    importance: int


@cache
def catalogue() -> dict[str, Behaviour]:
    lines = (HERE / "behaviours.jsonl").read_bytes().splitlines()
    return {each.id: each for each in (msgspec.json.decode(line, type=Behaviour) for line in lines)}


def named_in(source: Path) -> Iterator[str]:
    """The ids in every `behaviour("…")` of a file."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "behaviour":
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))


@cache
def named_by_tests() -> frozenset[str]:
    return frozenset(name for source in TESTS.rglob("test_*.py") for name in named_in(source))


@cache
def excused() -> frozenset[str]:
    """The ids in the first column of the tables."""
    return frozenset(re.findall(r"^\| `([a-z0-9.-]+)` \|", ROWS.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("importance", [1, 2])
def test_every_core_and_ordinary_behaviour_is_tested_or_excused(importance: int) -> None:
    wanted = {each.id for each in catalogue().values() if each.importance == importance}
    forgotten = sorted(wanted - named_by_tests() - excused())
    assert not forgotten, "write a test with @behaviour(…), or a row in docs/not-emulated.md that says why not"


def test_tests_and_rows_name_only_what_the_catalogue_has() -> None:
    assert sorted((named_by_tests() | excused()) - catalogue().keys()) == []


def test_nothing_is_both_tested_and_excused() -> None:
    assert sorted(named_by_tests() & excused()) == [], "there is a test now: take the row out of docs/not-emulated.md"
