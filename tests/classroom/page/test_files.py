"""The files of the page, and the one file that holds all of them."""

import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from regroup.classroom.page.files import LESSON_SCRIPTS, LIVE_SCRIPTS, SCRIPTS, Run, html_file, page_files
from regroup.classroom.timeline import GroupTimeline

REFERENCES = {"src", "href", "srcset", "action", "data", "poster", "style"}


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_one_file_refers_to_nothing_outside(lesson: GroupTimeline) -> None:
    page = html_file([Run("a <store>.db", lesson)])
    elements = Elements(page).found
    assert not [name for _, attributes in elements for name in attributes if name in REFERENCES]
    assert [attributes.get("type") for tag, attributes in elements if tag == "script"] == ["text/plain", None]
    assert "import(" not in page
    assert re.search(r"\bhttps?://(?!www\.w3\.org/2000/svg)", page) is None
    assert "@import" not in page
    assert "url(" not in page.replace("url(#arrow)", "")


def test_the_same_history_gives_the_same_file(lesson: GroupTimeline) -> None:
    assert html_file([Run("a", lesson)]) == html_file([Run("a", lesson)])


@pytest.mark.parametrize("is_live", [False, True])
def test_every_script_and_style_is_served_and_named(is_live: bool) -> None:
    found = page_files("page/", is_live=is_live)
    page = found[""].content.decode()
    named = [
        attributes.get("src") or attributes.get("href")
        for tag, attributes in Elements(page).found
        if tag in ("script", "link")
    ]
    assert sorted(filter(None, named)) == sorted(path for path in found if path)
    scripts = {*SCRIPTS, *(LIVE_SCRIPTS if is_live else ())}
    assert {path.removeprefix("page/") for path in found if path.endswith(".js")} == scripts


def test_no_script_is_left_out() -> None:
    static = files("regroup.classroom.page").joinpath("static")
    assert {each.name for each in static.iterdir() if each.name.endswith(".js")} == {
        *SCRIPTS,
        *LIVE_SCRIPTS,
        *LESSON_SCRIPTS,
    }


def test_scripts_make_no_markup_of_texts() -> None:
    """Names come from any client: they become text nodes."""
    for name in (*SCRIPTS, *LIVE_SCRIPTS):
        script = files("regroup.classroom.page").joinpath("static", name).read_text(encoding="utf-8")
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert forbidden not in script, name
        assert len(script.splitlines()) <= 320, name
        assert "</script" not in script
