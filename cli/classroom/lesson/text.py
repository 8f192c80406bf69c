"""Text of lessons for a terminal of 80 columns: paragraphs are wrapped, in Chinese between any two characters."""

import re
from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len

from regroup.cli.terminal.text import printable

WIDTH: Final = 80
_ATOM: Final = re.compile(r"\s+|[\u2e80-\uffff]|[^\s\u2e80-\uffff]+")
_NOT_AT_THE_START: Final = "。，、；：？！）》」』”’…"
_NOT_AT_THE_END: Final = "（《「『“‘"


def paragraphs(text: str, indent: str = "") -> Iterator[str]:
    """The lines of a text, which has one line for each paragraph, and empty lines between them.

    A paragraph that begins with a blank or `- ` has lines that stay as they are.
    """
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ""
        if paragraph.startswith((" ", "- ")):
            yield from (f"{indent}{printable(line)}" for line in paragraph.split("\n"))
        else:
            yield from wrapped(paragraph, indent)


def wrapped(text: str, indent: str = "", first: str | None = None) -> Iterator[str]:
    """The lines of one paragraph, at most WIDTH columns wide; `first` begins the first line in place of `indent`."""
    line = indent if first is None else first
    is_empty = True
    for atom in _unbreakable(printable(text)):
        if not is_empty and cell_len(line) + cell_len(atom.rstrip()) > WIDTH:
            yield line.rstrip()
            line, is_empty = indent, True
            atom = atom.lstrip()
        line += atom
        is_empty = is_empty and not atom.strip()
    if not is_empty or first:
        yield line.rstrip()


def _unbreakable(text: str) -> Iterator[str]:
    """The parts between which a line may end: words with the blanks before them, and single Chinese characters."""
    part = ""
    for atom in _ATOM.findall(text):
        if part and (not part.strip() or atom[0] in _NOT_AT_THE_START or part[-1] in _NOT_AT_THE_END):
            part += atom
        else:
            if part:
                yield part
            part = " " if atom.isspace() else atom
    if part:
        yield part
