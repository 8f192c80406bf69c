"""docs/files.md names every Python file of the packages, with its subject."""

import pytest

from scripts.write_file_map import PACKAGES, PAGE, ROOT, first_sentence, page, python_files

pytestmark = pytest.mark.slow  # `make check` runs it


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make docs`"


def test_every_package_is_on_the_page() -> None:
    packages = {marker.parent.name for marker in ROOT.glob("*/py.typed")}
    assert {each for each in PACKAGES if not each.endswith(".py")} == packages


def test_every_file_with_code_says_what_it_holds() -> None:
    files = [file for package in PACKAGES for file in python_files(package) if file.stat().st_size]
    assert [file.name for file in files if not first_sentence(file)] == []
