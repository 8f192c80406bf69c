"""The places of a file that are mutated, and those that are not."""

from pathlib import Path

import pytest

from tests.mutants.draw import draw
from tests.mutants.project_copy import ROOT
from tests.mutants.sites import KINDS, Mutation, all_mutations, mutations_of


def changes(source: str) -> set[tuple[str, str, str]]:
    return {(each.kind, each.before, each.after) for each in mutations_of(Path("file.py"), source.encode())}


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("a = b < c", ("operator", "b < c", "(b <= c)")),
        ("a = b + c", ("operator", "b + c", "(b - c)")),
        ("a = b and c", ("condition", "b and c", "(b or c)")),
        ("a = b and c", ("condition", "b and c", "(c)")),
        ("if a:\n    b()", ("condition", "a", "(not a)")),
        ("a = [b for b in c if d]", ("condition", "d", "(not d)")),
        ("a = True", ("constant", "True", "False")),
        ("a = 5", ("constant", "5", "6")),
        ("if a:\n    b()", ("removed statement", "b()", "pass")),
        ("def f():\n    return 5", ("removed statement", "return 5", "pass")),
        ("a(b, c)", ("swapped arguments", "a(b, c)", "(a(c, b))")),
        ("a(d=b, e=c)", ("swapped arguments", "a(d=b, e=c)", "(a(d=c, e=b))")),
    ],
)
def test_a_place_is_mutated(source: str, change: tuple[str, str, str]) -> None:
    assert change in changes(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "a: int | None = b",
        "def f(a: int | None) -> int | None: ...",
        "@cache(1)\ndef f(): ...",
        "class A(B, frozen=True): ...",
        "a = f'{b + c}'",
        "def __repr__(self):\n    return a + b",
        "a = log.info(b, c)",
        "a = self._log.info(b, c)",
        "A: TypeAlias = B | C",
    ],
)
def test_annotations_texts_and_what_is_logged_are_not_mutated(source: str) -> None:
    assert not changes(source)


def test_a_mutation_replaces_its_place_and_nothing_else_behind_letters_of_several_bytes() -> None:
    source = "# größer\na = 'ä', b < c, d\n".encode()
    [mutation] = mutations_of(Path("file.py"), source)
    assert mutation.apply(source).decode() == "# größer\na = 'ä', (b <= c), d\n"


@pytest.fixture(scope="module")
def found() -> list[Mutation]:
    return mutations_of(Path("coordinator/decide.py"), (ROOT / "coordinator" / "decide.py").read_bytes())


def test_a_draw_takes_the_kinds_in_turn_and_a_smaller_draw_begins_a_larger_one(found: list[Mutation]) -> None:
    drawn = draw(found, 8, seed=1)
    assert (
        tuple(each.kind for each in drawn[:4])
        == tuple(kind for kind in KINDS if kind in {each.kind for each in found})[:4]
    )
    assert draw(found, 6, seed=1) == drawn[:6]
    assert draw(found, 8, seed=2) != drawn


def test_every_mutation_of_a_file_has_a_key_of_its_own(found: list[Mutation]) -> None:
    assert len({each.key for each in found}) == len(found) > 20


@pytest.mark.slow
def test_all_rooms_can_be_searched() -> None:
    found = list(all_mutations(ROOT))
    assert {each.kind for each in found} == set(KINDS)
