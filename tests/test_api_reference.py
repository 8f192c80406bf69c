"""The public modules: docs/api.md lists them, each name in them has a docstring, and documents import nothing else."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from scripts.write_api_reference import (
    PAGE,
    SECTIONS,
    Reference,
    definitions,
    find_definition,
    public_names_of,
    tree_of,
)

ROOT = Path(__file__).parent.parent
PUBLIC = [module for modules in SECTIONS.values() for module in modules]
ALL = re.compile(r"^__all__ =", re.MULTILINE)
IMPORT = re.compile(r"from regroup\.([\w.]+) import ([\w, ]+)")


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == Reference().text(), "run `make docs`"


def test_the_page_lists_the_public_modules_and_names_and_no_others() -> None:
    page = PAGE.read_text(encoding="utf-8")
    listed: dict[str, list[str]] = {}
    for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        module = re.match(r"`regroup\.([\w.]+)`", section)
        assert module
        listed[module[1]] = re.findall(r"^- `(?:class |async )?(\w+)", section, re.MULTILINE)
    assert listed == {module: public_names_of(module) for module in PUBLIC}


def test_the_public_modules_are_those_with_an_all() -> None:
    """A package may have one too: it names what its `__init__` imports. `testing` is public as a whole."""
    packages = [path.parent for path in ROOT.glob("*/py.typed")]
    sources = [source for package in packages for source in package.rglob("*.py") if source.name != "__init__.py"]
    marked = {source for source in sources if ALL.search(source.read_text(encoding="utf-8"))}
    names = {".".join(source.relative_to(ROOT).with_suffix("").parts) for source in marked}
    assert names | {"testing"} == set(PUBLIC)
    assert len(PUBLIC) == len(set(PUBLIC))


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_exists_and_has_a_docstring(module: str) -> None:
    imported = import_module(f"regroup.{module}")
    assert imported.__doc__
    names = public_names_of(module)
    assert names
    assert [name for name in names if not hasattr(imported, name)] == []
    assert [name for name in names if not find_definition(module, name)[1]] == []


@pytest.mark.parametrize("module", [module for module in PUBLIC if module.startswith("protocol.messages.")])
def test_every_message_and_structure_is_public(module: str) -> None:
    assert [name for name, _, _ in definitions(tree_of(module)) if name != "__all__"] == public_names_of(module)


def test_documents_import_only_public_names() -> None:
    found = 0
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for module, names in IMPORT.findall(page.read_text(encoding="utf-8")):
            found += 1
            assert module in PUBLIC, f"{page.name} imports from regroup.{module}"
            assert {name.strip() for name in names.split(",")} <= set(public_names_of(module)), page.name
    assert found
