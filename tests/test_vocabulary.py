"""The words of the code: a class name means one thing, and texts use the field's words (docs/glossary.md)."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # `make check` runs it
ROOT = Path(__file__).parent.parent
PACKAGES = sorted(path.parent for path in ROOT.glob("*/py.typed"))

DEFINED_TWICE: dict[str, str] = {}
"""Class names and public type aliases that two packages may define, each with the reason."""

MANNERED = re.compile(
    r"\b(whoever|somebody|nobody|everybody|anybody|anew|afar|told|tells|hears|goodbye|patience|dies|dead|whatever)\b",
    re.IGNORECASE,
)
"""People words that stand where a term of the field should stand. Kafka's state `Dead` is removed before counting."""
MAX_MANNERED_PER_10_000_WORDS = 10


def names_defined_in(source: Path) -> Iterator[str]:
    """The classes and public type aliases of one file, at its top level."""
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_alias = ast.unparse(node.annotation).endswith("TypeAlias")
            if is_alias and not node.target.id.startswith("_"):
                yield node.target.id


def test_no_class_or_public_alias_is_defined_in_two_rooms() -> None:
    packages_of: dict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for source in package.rglob("*.py"):
            for name in names_defined_in(source):
                packages_of[name].add(package.name)
    twice = {
        name: sorted(packages)
        for name, packages in packages_of.items()
        if len(packages) > 1 and name not in DEFINED_TWICE
    }
    assert twice == {}


def words_for_people(source: Path) -> str:
    """Docstrings, comments and messages of a Python file; the whole text of any other."""
    text = source.read_text(encoding="utf-8")
    if source.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return " ".join(token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING))


def test_texts_use_the_words_of_the_field() -> None:
    words, found = 0, []
    sources = [
        source
        for folder in (*PACKAGES, ROOT / "docs")
        for source in folder.rglob("*")
        if source.suffix in (".py", ".md")
    ]
    for source in [*sources, *ROOT.glob("*.md")]:
        text = re.sub(r"\bDead\b", "", words_for_people(source))
        words += len(re.findall(r"[A-Za-z']+", text))
        found += [f"{source.relative_to(ROOT)}: {match[0]}" for match in MANNERED.finditer(text)]
    allowed = words * MAX_MANNERED_PER_10_000_WORDS // 10_000
    assert len(found) <= allowed, "\n".join(found)
