"""The files of the page, as a server gives them, and all of them in one HTML file that opens from disk."""

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import msgspec

from regroup.classroom.languages import Language
from regroup.classroom.page.document import NO_MESSAGES, encoded_document
from regroup.classroom.recorded.messages import ExchangeMessages
from regroup.classroom.timeline import GroupTimeline

SCRIPTS: Final = (
    "words.js",
    "history.js",
    "recordings.js",
    "source.js",
    "look.js",
    "surface.js",
    "axis.js",
    "rows.js",
    "sequence.js",
    "ownership.js",
    "states.js",
    "clocks.js",
    "logs.js",
    "offsets.js",
    "compare.js",
    "strip.js",
    "detail.js",
    "tables.js",
    "scrubber.js",
    "stage.js",
    "page.js",
)
"""In the order in which they are loaded: classic scripts, which share their names."""
LIVE_SCRIPTS: Final = ("live_words.js", "live.js", "actions.js")
"""Loaded before the last one, where the histories are still being written."""
STYLE: Final = "page.css"
LIVE_STYLE: Final = "live.css"
LESSON_SCRIPTS: Final = ("lesson_words.js", "lesson_parts.js", "lesson_forms.js", "lesson_replay.js", "lesson.js")
"""Loaded before the last one, where the history is that of a lesson."""
LESSON_STYLE: Final = "lesson.css"
PAGE: Final = "index.html"


class PageFile(NamedTuple):
    """A file that the page consists of: its content and media type."""

    media_type: str
    content: bytes


class Run(NamedTuple):
    """A history that the page shows: its timeline, its label on the page, and the messages of its exchanges."""

    label: str
    timeline: GroupTimeline
    messages: Mapping[int, ExchangeMessages] = NO_MESSAGES
    """The messages of its exchanges, by their numbers."""


@cache
def _text(name: str) -> str:
    return files("regroup.classroom.page").joinpath("static", name).read_text(encoding="utf-8")


def page_files(prefix: str = "", *, is_live: bool = False) -> Mapping[str, PageFile]:
    """The files of the page by their paths, each beginning with `prefix`; the page itself has the path `""`.

    A live page also loads new events while it is open, and has a panel of actions.
    """
    return _files(prefix, LIVE_SCRIPTS, (LIVE_STYLE,)) if is_live else _files(prefix)


def lesson_page_files() -> Mapping[str, PageFile]:
    """The files of the page of lessons, by their paths."""
    return _files("page/", LESSON_SCRIPTS, (LESSON_STYLE,))


def _files(
    prefix: str, further_scripts: Sequence[str] = (), further_styles: Sequence[str] = ()
) -> Mapping[str, PageFile]:
    names, styles = (*SCRIPTS[:-1], *further_scripts, SCRIPTS[-1]), (STYLE, *further_styles)
    links = [f'<link rel="stylesheet" href="{prefix}{name}">' for name in styles]
    scripts = [f'<script src="{prefix}{name}" defer></script>' for name in names]
    page = _filled(head="\n".join([*links, *scripts]), data="", scripts="")
    found = {"": PageFile("text/html; charset=utf-8", page.encode())}
    for name in styles:
        found[prefix + name] = PageFile("text/css; charset=utf-8", _text(name).encode())
    for name in names:
        found[prefix + name] = PageFile("text/javascript; charset=utf-8", _text(name).encode())
    return found


def html_file(runs: Sequence[Run], language: Language = Language.ENGLISH) -> str:
    """The page with these histories as a single HTML file, which shows texts in `language` first; readers can switch.

    Its content security policy permits only the script and style inside, and loading nothing.
    """
    script = "\n".join(_text(name).removeprefix('"use strict";\n') for name in SCRIPTS)
    script = f'"use strict";\n{script}'
    style = _text(STYLE)
    policy = f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'"
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    packed = base64.b64encode(gzip.compress(_data(runs), compresslevel=9, mtime=0)).decode()
    data = f'<script type="text/plain" id="data">{packed}</script>'
    page = _filled(head=head, data=data, scripts=f"<script>{script}</script>")
    return page.replace('<html lang="en">', f'<html lang="{language.value}">', 1)


def _data(runs: Sequence[Run]) -> bytes:
    shown: list[dict[str, Any]] = [
        {
            "label": each.label,
            "group": each.timeline.group_id,
            "document": msgspec.Raw(encoded_document(each.timeline, messages=each.messages)),
        }
        for each in runs
    ]
    return msgspec.json.encode({"runs": shown})


def _digest(text: str) -> str:
    """The SHA-256 hash of an inline script or style, in the form of a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _filled(**parts: str) -> str:
    """The page's HTML, in which the comment `<!-- name -->` is replaced by the part with this name."""
    page = _text(PAGE)
    for name, part in parts.items():
        page = page.replace(f"<!-- {name} -->\n", part + "\n" * bool(part))
    return page
