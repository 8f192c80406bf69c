"""README and the other documents: their programs print what they show, their figures and links are right."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from regroup.conformance.stories import CASES
from regroup.members.transports.tcp import SOFTWARE_VERSION
from tests.documents import PAGES, README, ROOT, links, pip_installs, programs

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION: str = PROJECT["project"]["version"]
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
PEERS = ("regroup", "Apache Kafka", "kfake", "librdkafka mock")


def requirement_name(requirement: str) -> str:
    return re.split(r"[<>=;\[ ]", requirement)[0]


@pytest.mark.parametrize(("program", "output"), list(programs(README)), ids=lambda each: "")
def test_a_program_prints_what_is_shown_below_it(program: str, output: str | None, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if output is not None:
        assert done.stdout == output


def test_the_first_program_shows_its_output() -> None:
    assert next(iter(programs(README)))[1]


def test_the_table_has_the_figures_of_the_conformance_page() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    column = rf"^\| ({'|'.join(PEERS)}) [^\s,]+(?:, all settings)? \| (\d+) \| (\d+) \|"
    measured = re.findall(column, page, re.MULTILINE)
    assert [name for name, _, _ in measured] == list(PEERS)
    (row,) = re.findall(r"^\| Stories of .*$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r"(\d+), (\d+)", row) == [(passed, failed) for _, passed, failed in measured]
    named = re.search(r"kfake (v\S+) and librdkafka (\S+):", README.read_text(encoding="utf-8"))
    assert named
    assert {f"kfake {named[1]}", f"librdkafka mock {named[2]}"} <= set(
        re.findall(r"^\| (\S.*?) \| \d", page, re.MULTILINE)
    )


def test_the_number_of_stories_is_right() -> None:
    shown = re.findall(r"(\d+) (?:stories|short tests)", README.read_text(encoding="utf-8"))
    assert set(shown) == {str(len(CASES))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


def test_every_document_is_in_the_index() -> None:
    index = {(ROOT / "docs" / target).resolve() for target in links(ROOT / "docs" / "README.md")}
    assert {page for page in PAGES if page != ROOT / "docs" / "README.md"} - index == set()


@pytest.mark.parametrize(("words", "places"), list(pip_installs().items()))
def test_a_printed_pip_install_names_packages_that_exist(words: str, places: list[str]) -> None:
    """Not `kafka-regroup`, which is on no index: the checkout, the wheel, or packages that regroup itself names."""
    groups = [PROJECT["project"]["dependencies"], *EXTRAS.values(), *PROJECT["dependency-groups"].values()]
    known = {requirement_name(each) for group in groups for each in group if isinstance(each, str)} | {"pre-commit"}
    for word in words.removeprefix("-e ").replace("'", "").split(" "):
        ours = re.fullmatch(r"(\.|\./kafka_regroup-(.+)-py3-none-any\.whl)(?:\[([\w,-]+)\])?", word)
        if ours:
            assert ours[2] in (None, VERSION), places
            assert set((ours[3] or "").split(",")) - {""} <= EXTRAS.keys(), places
        else:
            assert requirement_name(word) in known, places


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_printed_together(extra: str) -> None:
    """The packages that a message says to install are all packages of the extra."""
    needed = {requirement_name(each) for each in EXTRAS[extra]}
    printed = [{requirement_name(word) for word in words.replace("'", "").split(" ")} for words in pip_installs()]
    assert needed in printed


def test_the_version_stands_everywhere_alike() -> None:
    newest = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest
    assert newest[1] == VERSION == SOFTWARE_VERSION
