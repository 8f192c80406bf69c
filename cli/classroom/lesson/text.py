"""Text of lessons for a terminal of 80 columns: paragraphs are wrapped, in Chinese between any two characters."""

from collections.abc import Iterator
from typing import Final

from regroup.classroom import wrapping
from regroup.cli.terminal.text import printable

WIDTH: Final = 80


def paragraphs(text: str, indent: str = "") -> Iterator[str]:
    """Yield the lines to print for a text in which each paragraph is one line, with an empty line between paragraphs.

    Paragraphs are wrapped at WIDTH columns, and their lines begin with `indent`. A paragraph that begins with a blank
    or `- ` may have several lines, and these are not wrapped.
    """
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ""
        if paragraph.startswith((" ", "- ")):
            yield from (f"{indent}{printable(line)}" for line in paragraph.split("\n"))
        else:
            yield from wrapped(paragraph, indent)


def wrapped(text: str, indent: str = "", first: str | None = None) -> Iterator[str]:
    """Wrap one paragraph: yield lines of at most WIDTH columns.

    Each line begins with `indent`; the first one begins with `first`, if given.
    """
    return wrapping.wrapped(printable(text), WIDTH, indent, first)
