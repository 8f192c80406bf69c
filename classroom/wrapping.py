"""Text in lines of a terminal, in which a Chinese character takes two columns and a line may end between any two."""

import re
from collections.abc import Iterator
from typing import Final
from unicodedata import combining, east_asian_width

_ATOM: Final = re.compile(r"\s+|[\u2e80-\uffff]|[^\s\u2e80-\uffff]{1,60}")
"""Blanks, a Chinese character, or a word; a line may also end inside a word of more than 60 characters."""
_JOINER: Final = "\0"
"""Stands for a blank at which no line ends."""
_NUMBER_AND_UNIT: Final = re.compile(r"(?<=\d) (?=(?:ms|s|min|h|days?|kB|MB|GB)(?![A-Za-z]))")
_NOT_AT_THE_START: Final = "。，、；：？！）》」』”’…"
_NOT_AT_THE_END: Final = "（《「『“‘"


def columns_of(text: str) -> int:
    """The number of terminal columns that a text takes; a control character counts as one column."""
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)


def padded(text: str, width: int) -> str:
    """The text with blanks after it, so that it takes at least `width` columns."""
    return text + " " * (width - columns_of(text))


def wrapped(text: str, width: int, indent: str = "", first: str | None = None) -> Iterator[str]:
    """Wrap one paragraph: yield lines of at most `width` columns.

    Each line begins with `indent`; the first one begins with `first`, if given.
    """
    text = _NUMBER_AND_UNIT.sub(_JOINER, text)
    line = indent if first is None else first
    is_empty = True
    for atom in _unbreakable(text):
        if not is_empty and columns_of(line) + columns_of(atom.rstrip()) > width:
            yield line.rstrip().replace(_JOINER, " ")
            line, is_empty = indent, True
            atom = atom.lstrip()
        line += atom
        is_empty = is_empty and not atom.strip()
    if not is_empty or first:
        yield line.rstrip().replace(_JOINER, " ")


def _unbreakable(text: str) -> Iterator[str]:
    """Split a text into the parts between which a line may end.

    A part is a word with the blanks before it, or one Chinese character with the punctuation that must stay beside it.
    """
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
