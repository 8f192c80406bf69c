"""Text of lessons for a terminal of 80 columns: paragraphs are wrapped, in Chinese between any two characters."""

from collections.abc import Iterator
from typing import Final

from regroup.classroom import wrapping
from regroup.cli.terminal.text import printable

WIDTH: Final = 80


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
    return wrapping.wrapped(printable(text), WIDTH, indent, first)
