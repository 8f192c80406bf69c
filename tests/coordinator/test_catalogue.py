"""Every behaviour of Apache Kafka in the catalogue has a test, or a row in docs/not-emulated.md that gives the reason.

`behaviours.jsonl` lists the behaviours of classic groups, one a line; `consumer-behaviours.jsonl` those of groups of
the consumer protocol, of which `consumer-behaviours-open.txt` names the ones without a test. Importance 1 is core, 2
ordinary, 3 exotic.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

pytestmark = pytest.mark.xdist_group("catalogue")  # one process reads the tests
CATALOGUE = Path(__file__).parent / "behaviours.jsonl"
CONSUMER_CATALOGUE = CATALOGUE.with_name("consumer-behaviours.jsonl")
OPEN = CATALOGUE.with_name("consumer-behaviours-open.txt")
TESTS = CATALOGUE.parents[1]
NOT_EMULATED = TESTS.parent / "docs" / "not-emulated.md"


class Behaviour(msgspec.Struct, frozen=True):
    id: str
    area: str
    importance: int


@cache
def catalogue() -> dict[str, Behaviour]:
    lines = (CATALOGUE.read_bytes() + CONSUMER_CATALOGUE.read_bytes()).splitlines()
    return {each.id: each for each in (msgspec.json.decode(line, type=Behaviour) for line in lines)}


def open_behaviours() -> frozenset[str]:
    """Behaviours of the consumer protocol without a test, one a line."""
    return frozenset(OPEN.read_text(encoding="utf-8").split())


def behaviours_in(source: Path) -> Iterator[str]:
    """The ids in every `behaviour("…")` of a file."""
    text = source.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "behaviour(" in text else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "behaviour":
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))


@cache
def covered_by_tests() -> frozenset[str]:
    return frozenset(name for source in TESTS.rglob("test_*.py") for name in behaviours_in(source))


@cache
def not_emulated() -> frozenset[str]:
    """The ids in the first column of the tables in docs/not-emulated.md."""
    return frozenset(re.findall(r"^\| `([A-Za-z0-9.-]+)` \|", NOT_EMULATED.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("importance", [1, 2])
def test_every_core_and_ordinary_behaviour_has_a_test_or_a_row_in_not_emulated(importance: int) -> None:
    wanted = {each.id for each in catalogue().values() if each.importance == importance}
    missing = sorted(wanted - covered_by_tests() - not_emulated() - open_behaviours())
    assert not missing, "write a test with @behaviour(…), or a row in docs/not-emulated.md with the reason"


def test_tests_and_rows_name_only_behaviours_of_the_catalogue() -> None:
    assert sorted((covered_by_tests() | not_emulated()) - catalogue().keys()) == []


def test_no_behaviour_has_both_a_test_and_a_row() -> None:
    assert sorted(covered_by_tests() & not_emulated()) == [], (
        "there is a test now: delete the row in docs/not-emulated.md"
    )


def test_the_list_of_open_behaviours_names_those_of_the_consumer_protocol_without_test_or_row() -> None:
    consumer = {each for each in catalogue() if each.startswith("cg.")}
    assert sorted(open_behaviours()) == sorted(consumer - covered_by_tests() - not_emulated()), (
        "write the ids without a test into consumer-behaviours-open.txt, and no others"
    )
